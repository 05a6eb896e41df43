"""Words of lines and questions: analysis by language, dates, and an index of terms."""
