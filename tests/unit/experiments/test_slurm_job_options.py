"""`--slurm KEY=VALUE`: what is read, refused, and handed to sbatch."""

from __future__ import annotations

import pytest

from damcha_core.errors import UsageError
from damcha_core.experiments.slurm.job_options import KEYS, minutes, read_job_options


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90),
        ("0:30", 1),
        ("90:00", 90),
        ("4:00:00", 240),
        ("0:01:01", 2),
        ("2-00", 2880),
        ("1-02:30", 1590),
        ("1-00:00:01", 1441),
    ],
)
def test_a_time_is_read_as_sbatch_reads_it(text, expected):
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0:00", "1h", "-5", "1:2:3:4", "1-", "1.5", "1e3", "٣"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match=r"--slurm .*give a time"):
        read_job_options([f"time={text}"])


def test_what_is_not_given_has_its_documented_default_or_is_left_to_the_cluster():
    options = read_job_options()
    assert dict(options.values) == {
        key: known.default for key, known in KEYS.items() if known.default is not None
    }
    assert (options.cpus, options.max_timeouts) == (2, 100)
    parameters = options.parameters("n", 7)
    assert "partition" not in parameters
    assert parameters["srun_args"] == ["--cpus-per-task", "2"]
    assert parameters["additional_parameters"] == {"requeue": True}
    assert parameters["array_parallelism"] == 7


def test_given_values_beat_the_defaults_and_get_where_sbatch_reads_them():
    options = read_job_options(
        ["time=2-00", "cpus_per_task=8", "--mem=8G", "gpus=a100:1", "reservation=r",
         "partition=a,b", "setup=module load cuda", "setup=ulimit -c 0"]
    )  # fmt: skip
    parameters = options.parameters("n", 1)
    found = {key: parameters[key] for key in ("time", "cpus_per_task", "mem", "gpus_per_node")}
    assert found == {"time": 2880, "cpus_per_task": 8, "mem": "8G", "gpus_per_node": "a100:1"}
    assert parameters["additional_parameters"] == {"requeue": True, "reservation": "r"}
    assert options.setup == ["module load cuda", "ulimit -c 0"]
    words = options.sbatch_words("n", 4, 2)
    assert words[:3] == ["sbatch", "--job-name=n", "--array=0-3%2"]
    assert {"--time=2880", "--gpus=a100:1", "--requeue", "--signal=USR2@120"} <= set(words)
    assert not any("setup" in word or "max-timeouts" in word for word in words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("timee=4", "did you mean time?"),
        ("walltime=4", "did you mean time?"),
        ("queue=x", "did you mean partition?"),
        ("partion=x", "did you mean partition?"),
        ("time", "write KEY=VALUE"),
        ("cpus-per-task=0", "at least 1"),
        ("cpus-per-task=two", "at least 1"),
        ("partition=", "text on one line"),
        ("partition=a\nrm -rf x", "text on one line"),
        ("signal-delay=14400", "the time limit itself is 14400 s"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(given, words):
    with pytest.raises(UsageError) as caught:
        read_job_options([given])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_given_twice_is_refused():
    with pytest.raises(UsageError, match="twice"):
        read_job_options(["time=1:00:00", "time=2:00:00"])


def test_every_parameter_is_one_that_submitit_knows(tmp_path):
    submitit = pytest.importorskip("submitit", reason="submitit is not installed")
    values = {"time": "60", "cpus-per-task": "1", "signal-delay": "30", "max-timeouts": "3"}
    options = read_job_options([f"{key}={values.get(key, 'x')}" for key in KEYS])
    known = submitit.SlurmExecutor._valid_parameters()
    assert set(options.parameters("n", 1)) <= known
