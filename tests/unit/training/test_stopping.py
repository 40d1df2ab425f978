"""Signals are remembered until the state is saved."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace

import pytest

from seq2seq.training import stopping
from seq2seq.training.stopping import Stopping, StopRequest


@pytest.fixture(autouse=True)
def heard():
    """The tests may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def stop(heard):
    request = StopRequest()
    with request.listening():
        yield request


@pytest.mark.parametrize("number", stopping.SIGNALS)
def test_a_signal_is_only_remembered(stop, number, capfd):
    assert stop.signal == 0
    stop.raise_if_stopping()
    os.kill(os.getpid(), number)
    assert stop.signal == number
    assert "the state is saved first" in capfd.readouterr().err
    with pytest.raises(Stopping):
        stop.raise_if_stopping()


def test_the_second_ctrl_c_of_a_person_ends_at_once_but_not_that_of_a_launcher(stop, monkeypatch):
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)  # torchrun passes on what the terminal sent already
    os.kill(os.getpid(), signal.SIGTERM)
    later = time.monotonic() + 10
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: later))
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.signal == signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_what_nohup_ignores_stays_ignored(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    request = StopRequest()
    with request.listening():
        os.kill(os.getpid(), signal.SIGHUP)
    assert request.signal == 0
    assert signal.signal(signal.SIGHUP, before) is signal.SIG_IGN


def test_the_signals_are_given_back():
    before = [signal.getsignal(number) for number in stopping.SIGNALS]
    with StopRequest().listening():
        assert [signal.getsignal(number) for number in stopping.SIGNALS] != before
    assert [signal.getsignal(number) for number in stopping.SIGNALS] == before
