"""What is known of a user: standing statements, verbatim, as a view of the log.

`statements` reads sentences, `profile` puts them together, `reader` follows a log.
"""

from langchain_convmem.profile.profile import ProfileItem, TimelineEvent, UserProfile
from langchain_convmem.profile.statements import ItemKind

__all__ = ["ItemKind", "ProfileItem", "TimelineEvent", "UserProfile"]
