"""R13: 2,000 damaged run files; each is accepted or refused in plain words, and quickly."""

from __future__ import annotations

import random
import time

import pytest

from damcha_core.catalog.run_attentions import attention_names
from damcha_core.catalog.tasks import task_rows
from damcha_core.config.document import to_toml
from damcha_core.config.keys import SECTIONS, fields
from damcha_core.config.resolve import config_from_run, resolve
from damcha_core.config.usual_names import KEYS as USUAL
from damcha_core.errors import ConfigError

CHUNKS = 20
FILES_A_CHUNK = 100
SLOWEST_SECONDS = 1.0

SEEDS = [
    b"lr = nan",
    b"[train]\nlr = nan\nclip_norm = inf\nweight_decay = -inf\n",
    b"[train]\nlr = 1e400\n",
    b"[train]\nepochs = " + b"9" * 5000,
    b"[train]\nepochs = 0x" + b"f" * 5000,
    b"[train]\nlr = " + b"[" * 900,
    b"[attention]\nmlp_hidden = " + b"[" * 3000 + b"]" * 3000,
    b"a = " + b"{a=" * 1500,
    b"\xef\xbb\xbf[train]\r\nepochs = 3\r\n",
    b"\xff\xfe[\x00t\x00]\x00",
    b"[data]\nroot = '\xff'\n",
    b"[train]\nepochs = 3\nepochs = 4\n",
    b"[train]\nlr = 1\n[train]\nlr = 2\n",
    b"[train]\nepochs = 1979-05-27T07:32:00Z\n",
    b"[train]\nbatch_size = true\n",
    b'[train]\nlr = "1e-4"\n',
    b'[data]\nroot = "C:\\Users\\me"\n',
    b"[data]\nroot = 'C:\\Users\\me'\n",
    b"[[train]]\nlr = 1\n[[train]]\nlr = 2\n",
    b"train.lr = 0.1\ntrain.epochs = 2\n",
    b".".join([b"a"] * 3000) + b" = 1",
    b"\x00" * 100,
    b"",
    b"#" * 20_000,
    b'"" = 1\n[""]\n"" = 2\n',
    '[run]\nname = "\u202egnp"\nout = "\U0001f600"\n'.encode(),
]
VALUES = [
    "0", "1", "-1", "3", "64", "1.5", "-0.0", "1e-3", "1e400", "-1e400", "nan", "inf", "-inf",
    "true", "false", '""', '"a"', '"1"', '"auto"', '"valid"', "[]", "[1]", "[256, 512]", "[true]",
    "[[1]]", '["a"]', "{}", "{a = 1}", "1979-05-27", "07:32:00", "9223372036854775807",
    "9223372036854775808", "0x10", "1_000", '"\\u0000"', '"\\n"', "'''\na\n'''", "True", "None",
    "", "abc", "'", '"', "[", "{", "99999999999999999999999999", "0.999", "1.0000001",
]  # fmt: skip
SECTION_NAMES = [*SECTIONS, "trian", "optimizer", "", "a.b", "train.lr", '"train"', " train "]
KEY_NAMES = [key for section in SECTIONS for key in fields(section)]


def base_files() -> list[bytes]:
    """Complete valid run files of every task, and of every attention."""
    tasks = [{"run.task": row.name} for row in task_rows()]
    rows = [{"attention.name": name} for name in attention_names()]
    return [to_toml(resolve(flags=flags)).encode() for flags in [*tasks, *rows]]


def damaged_bytes(dice: random.Random, content: bytes) -> bytes:
    """A few bytes flipped, dropped, doubled, inserted, or two files spliced."""
    data = bytearray(content)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(data) + 1)
        kind = dice.randrange(6)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << dice.randrange(8)
        elif kind == 1:
            del data[place : place + dice.randint(1, 40)]
        elif kind == 2:
            data[place:place] = bytes(dice.randrange(256) for _ in range(dice.randint(1, 4)))
        elif kind == 3:
            data[place:place] = data[place : place + dice.randint(1, 200)]
        elif kind == 4:
            data[place:place] = dice.choice(SEEDS)
        else:
            data[place:place] = dice.choice([b"\r", b"\n", b"\t", b"=", b'"', b"]", b"#", b"\\"])
    return bytes(data)


def grammatical(dice: random.Random) -> bytes:
    """Sections, keys and values from lists of likely and unlikely ones."""
    lines = []
    for _ in range(dice.randint(1, 5)):
        section = dice.choice(SECTION_NAMES)
        lines.append(f"[{section}]")
        own = list(fields(section)) if section in SECTIONS else KEY_NAMES
        for _ in range(dice.randint(0, 5)):
            names = own if dice.random() < 0.8 else [*KEY_NAMES, *USUAL]
            key = dice.choice(names)
            if dice.random() < 0.2:
                cut = dice.randrange(len(key))
                key = key[:cut] + key[cut + 1 :]
            lines.append(f"{key} = {dice.choice(VALUES)}")
    if dice.random() < 0.1:
        dice.shuffle(lines)
    return dice.choice(["\n", "\r\n"]).join(lines).encode()


def other_value(dice: random.Random, content: bytes) -> bytes:
    """A valid file in which one or two keys have values from the list, or are gone."""
    lines = content.decode().split("\n")
    for _ in range(dice.randint(1, 2)):
        place = dice.choice([i for i, line in enumerate(lines) if " = " in line])
        key = lines[place].partition(" = ")[0]
        lines[place] = dice.choice(["", f"{key} = {dice.choice(VALUES)}"])
    return "\n".join(lines).encode()


def file_content(dice: random.Random, bases: list[bytes]) -> bytes:
    """One file to try: other values, damaged bytes, random grammar, a third each."""
    kind = dice.randrange(3)
    if kind == 0:
        return other_value(dice, dice.choice(bases))
    if kind == 1:
        return damaged_bytes(dice, dice.choice([*bases, *SEEDS]))
    return grammatical(dice)


def outcome(path) -> str:
    """Reads a file the way `damcha train --config` does and checks what must hold."""
    start = time.process_time()
    problems: tuple[str, ...] = ()
    try:
        config = resolve(path)
    except ConfigError as error:
        problems = error.problems
    seconds = time.process_time() - start
    assert seconds < SLOWEST_SECONDS
    if problems:
        for line in problems:
            assert line.isprintable()
            assert str(path) in line
        return "refused"
    path.write_text(to_toml(config), encoding="utf-8", newline="\n")
    assert resolve(path) == config
    assert config_from_run(path) == config
    return "accepted"


@pytest.mark.parametrize("content", SEEDS, ids=range(len(SEEDS)))
def test_seeds(content, tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    outcome(path)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_damaged_run_files_end_in_plain_words(chunk, tmp_path):
    dice = random.Random(1000 + chunk)
    bases = base_files()
    path = tmp_path / "a.toml"
    outcomes = []
    for _ in range(FILES_A_CHUNK):
        content = file_content(dice, bases)
        path.write_bytes(content)
        try:
            outcomes.append(outcome(path))
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__} on {content[:3000]!r}") from error
    # Both ways out are taken, so the files are neither all broken nor all harmless.
    assert outcomes.count("refused") > 10
    assert outcomes.count("accepted") > 4
