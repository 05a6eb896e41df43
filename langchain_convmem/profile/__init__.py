"""What is known of a user: standing statements, verbatim, as a view of the log.

`statements` reads sentences, `profile` puts them together, `reader` follows a log. A model may
propose more (`profiler`), of which stands what the user said (`proposals`).
"""

from langchain_convmem.profile.profile import ProfileItem, TimelineEvent, UserProfile
from langchain_convmem.profile.profiler import ProfilerReport
from langchain_convmem.profile.statements import ItemKind

__all__ = ["ItemKind", "ProfileItem", "ProfilerReport", "TimelineEvent", "UserProfile"]
