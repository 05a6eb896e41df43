"""What is known of the lines of owners: read from the log, embedded, and searched."""
