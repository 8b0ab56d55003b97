"""Broken text files: the message says where, and what to do."""

import gzip
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from equipoise.errors import InputError
from equipoise.files import iterate_table, read_table
from tests.error_parts import says


def refusal(path):
    """What both ways to read a file say of it, and that they say the same."""
    with pytest.raises(InputError) as whole:
        read_table(path)
    with pytest.raises(InputError) as blocks:
        list(iterate_table(path))
    assert str(whole.value) == str(blocks.value)
    start = f"data file '{path}' "
    assert str(whole.value).startswith(start)
    return str(whole.value).removeprefix(start)


@pytest.fixture
def written(tmp_path):
    def write(content, name="a.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_header_only(written):
    assert says(
        refusal(written("age,job\n")),
        "must have at least one",
        "column names only",
        "check how it was written",
    )


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("a,b\n1,2\n3,4,5\n6,7\n", 3, 3),
        ("a,b\n1,2\n\n3\n", 4, 1),
        ('a,b\n"x\ny",2\n3,4,5\n', 4, 3),
        ("a,b\r\n1,2\r\n1,2,3,4\r\n", 3, 4),
    ],
)
def test_ragged_rows_name_the_line(written, text, line, found):
    assert says(
        refusal(written(text)),
        "must have 2 values in",
        f"{found} in line {line}",
        "put values that hold a",
    )


def test_a_ragged_row_far_down_is_found_too(written):
    lines = ["a,b", *["1,2"] * 400_000, "1", *["1,2"] * 10]
    expected = ("have 2 values", "1 in line 400002", "double quotes")
    path = written("\n".join(lines))
    assert says(refusal(path), *expected)
    zipped = path.with_name("a.csv.gz")
    zipped.write_bytes(gzip.compress(path.read_bytes(), 1))
    assert says(refusal(zipped), *expected)


def test_an_open_quote_does_not_swallow_the_rest_of_the_file(written):
    assert says(
        refusal(written('a,b\n1,2\n3,"open\n5,6\n7,8\n')),
        "must close every quoted value",
        "one that begins in line 3",
        "close it, or double every",
    )


def test_an_open_quote_before_megabytes(written):
    assert says(
        refusal(written('a,b\n1,"x\n' + "1,2\n" * 1_000_000)),
        "must have values of at",
        "one that begins in line 2",
        "look for a quote that is never closed",
    )


def test_text_behind_a_closing_quote(written):
    assert says(
        refusal(written('a,b\n1,2\n"x" y,2,3\n')),
        "must have no text between a",
        "got some in line 3",
        'double every " inside values',
    )


def test_text_with_line_breaks_at_the_end_is_fine(written):
    path = written('a,b\n1,"two\nlines"\n')
    assert read_table(path)["b"].tolist() == ["two\nlines"]
    assert [list(frame["b"]) for frame in iterate_table(path)] == [["two\nlines"]]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (
            "a,b,a,b,c",
            ("must have distinct column names", "'a', 'b' more than once", "rename them"),
        ),
        (",a,b", ("must name every column", "none for column 1 of", "give it a name, or")),
        (
            "a;b;c",
            (
                "must separate values by commas",
                "its first line has semicolons",
                "set sep=';' (--sep ';')",
            ),
        ),
        (
            "a\tb",
            ("must separate values by commas", "its first line has tabs", "(--sep '\\t')"),
        ),
        ("", ("must begin with a line", "an empty line", "write it again")),
    ],
)
def test_headers(written, header, said):
    row = header.replace("a", "1").replace("b", "2")
    assert says(refusal(written(f"{header}\n{row}\n")), *said)


def test_duplicate_names_in_parquet(tmp_path):
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "a.parquet")
    assert says(
        refusal(tmp_path / "a.parquet"),
        "must have distinct column names",
        "'a' more than once",
        "rename them",
    )


@pytest.mark.parametrize(
    ("rows", "offset", "line"), [(1, 12, 3), (300_000, 4 + 4 * 300_000 + 4, 300_002)]
)
def test_latin_1_is_recognised_wherever_it_begins(written, rows, offset, line):
    content = b"a,b\n" + b"1,2\n" * rows + "3,caf\xe9\n".encode("latin-1")
    assert says(
        refusal(written(content)),
        "must be UTF-8 text",
        f"byte 0xe9 at offset {offset + 1} (line {line}), perhaps Windows-1252 or Latin-1",
        "convert it with: iconv -f",
    )
    assert content[offset + 1] == 0xE9


def test_a_character_cut_by_the_end_of_a_block_is_no_fault(written):
    """The file is searched a mebibyte at a time; an é may lie across the border."""
    start = b"a,b\n1," + b"x" * (2**20 - 7)
    content = start + "é\n".encode() + b"2,\xff\n"
    assert content[2**20 - 1 : 2**20 + 1] == "é".encode()
    assert "byte 0xff at offset 1048580 (line 3)" in refusal(written(content))
    assert content[1048580] == 0xFF


def test_bytes_that_windows_does_not_have_are_latin_1(written):
    assert refusal(written(b"a,b\n1,\x81\n")).startswith(
        "must be UTF-8 text, got byte 0x81 at offset 6 (line 2), perhaps Latin-1; "
    )


def test_latin_1_in_a_number_column_or_in_the_header(written):
    assert "at offset 3 (line 1)" in refusal(written(b"a,b\xe9\n1,2\n"))
    assert "at offset 4 (line 2)" in refusal(written(b"a,b\n\xe9,2\n"))


def test_the_remedy_works(written, tmp_path):
    path = written("a,b\n1,caf\xe9\n".encode("cp1252"))
    command = refusal(path).split("convert it with: ")[1]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path, timeout=60)
    assert read_table(tmp_path / "utf8.csv")["b"].tolist() == ["café"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_are_named_and_the_remedy_works(written, tmp_path, encoding):
    path = written("age,b\n1,café\n".encode(encoding))
    said = refusal(path)
    name = {"utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE"}.get(encoding, encoding.upper())
    assert says(
        said,
        "must be UTF-8 text",
        f"{name}",
        f"convert it with: iconv -f {name} -t UTF-8 'a.csv' > utf8.csv",
    )
    command = said.split("convert it with: ")[1]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path, timeout=60)
    assert read_table(tmp_path / "utf8.csv")["b"].tolist() == ["café"]


def test_zero_bytes_are_no_text(written):
    assert says(
        refusal(written(b"a\0\0\0,b\n1,2\n")),
        "must be text by its",
        "it holds zero bytes",
        "write it again as CSV",
    )


def test_a_byte_order_mark_of_utf_8_is_no_part_of_the_name(written):
    path = written(b"\xef\xbb\xbfage,job\n31,cook\n")
    assert list(read_table(path).columns) == ["age", "job"]
    assert [list(frame.columns) for frame in iterate_table(path)] == [["age", "job"]]


def test_a_gzip_file_cut_off_within_its_first_lines(written):
    content = gzip.compress(b"a,b\n1,2\n")
    assert says(
        refusal(written(content[:12], "a.csv.gz")),
        "is cut off or damaged",
        "write or copy it again",
    )


def test_truncated_gzip(written):
    content = gzip.compress(b"a,b\n" + b"1,2\n" * 1000)
    assert says(
        refusal(written(content[:-12], "a.csv.gz")),
        "is cut off or damaged",
        "write or copy it again",
    )


def test_several_gzip_files_in_one(written):
    content = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n")
    path = written(content, "a.csv.gz")
    assert read_table(path)["a"].tolist() == [1, 3]
    assert [list(frame["a"]) for frame in iterate_table(path)] == [["1", "3"]]
