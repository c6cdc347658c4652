"""What can be wrong with records from elsewhere: a list of damages."""

from tests.damages.archives import of_archives
from tests.damages.damage import Damage
from tests.damages.fields import of_fields, of_records
from tests.damages.files import of_files, of_folders


def damages() -> list[Damage]:
    """All of them, by what they change: a field of a record, a file of a cell, a folder, an archive."""
    return [*of_fields(), *of_records(), *of_files(), *of_folders(), *of_archives()]
