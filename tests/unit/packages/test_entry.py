"""The annotation that holds the progress of a node's packages."""

import pytest

from haulout.surfaces.packages.entries.entry import MalformedNodeState, PackageEntry, parse, to_text

ONE = (
    '{"base|1.4.0":{"name":"base","version":"1.4.0","image":"registry.local:5000/pkgs/base",'
    '"stage":"apply","state":"in_progress"}}'
)


def test_an_entry_is_printed_without_empty_members() -> None:
    entry = PackageEntry("base", "1.4.0", "registry.local:5000/pkgs/base", stage="apply", state="in_progress")
    assert to_text({entry.key: entry}) == ONE


def test_what_is_printed_is_read_again() -> None:
    entry = PackageEntry("a<b", "1", "i", "sha256:1", "config", "erroring", 3)
    text = to_text({entry.key: entry})
    assert text == (
        '{"a\\u003cb|1":{"name":"a\\u003cb","version":"1","image":"i","containerSHA":"sha256:1",'
        '"stage":"config","state":"erroring","restarts":3}}'
    )
    assert parse(text) == {entry.key: entry}


def test_no_entries_are_an_empty_object() -> None:
    assert to_text({}) == "{}"


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"a":1}', '{"a":{"stage":1}}'])
def test_anything_else_is_malformed(text: str) -> None:
    with pytest.raises(MalformedNodeState):
        parse(text)
