"""The clocks of `tritium bench`, on a GPU that only keeps account."""

from types import SimpleNamespace

import pytest

from tritium.tools.bench.measuring import DeviceClock


class Account:
    """When the host is free, and when the GPU is; work begins when both are, and the host goes on at once."""

    def __init__(self, launch, run):
        self.host, self.gpu, self.launch, self.run = 0.0, 0.0, launch, run
        self.cuda = SimpleNamespace(Event=lambda enable_timing: Event(self), _sleep=lambda n: self.enqueue(0, n / 2e9))
        self.int32 = None

    def enqueue(self, host, gpu):
        self.host += host
        self.gpu = max(self.host, self.gpu) + gpu

    def call(self):
        self.enqueue(self.launch, self.run)

    def empty(self, count, dtype, device):
        return SimpleNamespace(zero_=lambda: self.enqueue(5e-6, 60e-6))


class Event:
    def __init__(self, account):
        self.account = account

    def record(self):
        self.at = max(self.account.host, self.account.gpu)

    def synchronize(self):
        self.account.host = max(self.account.host, self.at)

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize(("launch", "run"), [(60e-6, 30e-6), (60e-6, 1e-6), (10e-6, 3e-3)])
def test_a_call_takes_what_the_gpu_takes(cold, launch, run):
    """Python takes longer to make a short call than the GPU to run it."""
    account = Account(launch, run)
    clock = DeviceClock(account, cold)
    assert clock.sample(account.call, clock.calls(account.call)) == pytest.approx(run)


def test_long_calls_are_timed_in_long_loops():
    account = Account(10e-6, 3e-3)
    clock = DeviceClock(account, cold=False)
    assert clock.calls(account.call) * 3e-3 == pytest.approx(clock.LONG, rel=0.2)
