"""The signal handlers of a run: a flag, and nothing left behind."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from damcha_core.train.signals import WATCHED, StopRequest


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in WATCHED]


@pytest.mark.parametrize("number", WATCHED)
def test_a_signal_sets_a_flag_and_the_handlers_come_back(number):
    before = handlers()
    with StopRequest() as stop:
        assert not stop
        os.kill(os.getpid(), number)
        assert stop
        assert stop.signal_number == number
    assert handlers() == before


def test_the_handlers_come_back_after_an_error():
    before = handlers()
    with pytest.raises(ValueError, match="ours"), StopRequest():
        raise ValueError("ours")
    assert handlers() == before


def test_the_second_signal_ends_the_process_with_its_code(monkeypatch):
    codes: list[int] = []
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(os, "_exit", codes.append)
    with StopRequest():
        os.kill(os.getpid(), signal.SIGTERM)
        assert codes == []
        os.kill(os.getpid(), signal.SIGINT)
    assert codes == [130]


def test_in_a_slurm_job_a_signal_that_comes_twice_is_one(monkeypatch):
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert codes == []
        stop.repeat_seconds = 0.0  # as if the time had passed
        os.kill(os.getpid(), signal.SIGTERM)
    assert codes == [143]


def test_in_another_thread_there_are_no_handlers_to_set():
    seen: list[object] = []

    def run() -> None:
        with StopRequest() as stop:
            seen.extend([handlers(), bool(stop)])

    before = handlers()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before, False]
