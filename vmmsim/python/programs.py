# SPDX-License-Identifier: MIT-0
"""Programs that are run to their end, of which no process is left behind, and what they write."""

import contextlib
import os
import selectors
import signal
import subprocess

from vmmsim.processes import end_all, end_session

ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
PASSED = *ENDING, signal.SIGQUIT


class NotStarted(Exception):
    """What cannot be started, and why."""


def start(command, mask, begin=lambda: None, **options):
    """A process with this mask of signals, in which begin() has been called."""

    def in_process():  # no thread is here
        begin()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    words = [str(word) for word in command]
    try:
        return subprocess.Popen(words, preexec_fn=in_process, **options)
    except OSError as error:
        raise NotStarted(f"{words[0]} cannot be started: {error.strerror}") from None


def end_with_session(process):
    """Ends it and all of its session. What does not end, in words."""
    left = end_session(process.pid)
    if not left:
        process.wait()
    return left


@contextlib.contextmanager
def started(command, end=end_with_session, **options):
    """A process in a session of its own, which is ended at the end of `with`."""
    # Who is asked to end meanwhile waits with that until it knows whom it has started, and so has to end.
    mask, process = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING), None
    try:
        process = start(command, mask, start_new_session=True, **options)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield process
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if process:
            end(process)


def wait_for(command, environment, say):
    """The status of a command, as of a shell. Signals are passed on to it, and a second Ctrl-C ends it."""
    mask, process = signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED, signal.SIGCHLD}), None
    try:
        process = start(command, mask, env=environment)
        interrupted = False
        while process.poll() is None:
            got = signal.sigtimedwait({*PASSED, signal.SIGCHLD}, 0.2)
            if not got or got.si_signo == signal.SIGCHLD:
                continue
            if got.si_code <= 0:  # what the terminal sends, it sends to both
                process.send_signal(got.si_signo)
            if got.si_signo == signal.SIGINT and interrupted:
                return 128 + signal.SIGINT
            if got.si_signo == signal.SIGINT:
                interrupted = True
                say("if the program goes on, Ctrl-C again ends it")
        return process.returncode if process.returncode >= 0 else 128 - process.returncode
    finally:
        if process and process.returncode is None:
            for sentence in end_all():
                say(sentence)
        while signal.sigtimedwait({*PASSED, signal.SIGCHLD}, 0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Output:
    """What comes through descriptors, by their names, until nobody writes there any more."""

    def __init__(self, show=lambda name, data: None, **descriptors):
        self.show, self.descriptors = show, descriptors  # those that somebody may still write to
        self.written = {name: bytearray() for name in descriptors}

    def read(self, wait):
        """Reads what is there, or comes within these seconds. Whether there was any, or an end."""
        with selectors.DefaultSelector() as selector:
            for name, descriptor in self.descriptors.items():
                selector.register(descriptor, selectors.EVENT_READ, name)
            ready = {key.data for key, _ in selector.select(wait)}
        for name in filter(ready.__contains__, self.written):  # in this order
            try:
                data = os.read(self.descriptors[name], 1 << 16)
            except OSError:  # so a terminal says that its other side is closed
                data = b""
            self.written[name] += data
            self.show(name, data)
            if not data:
                del self.descriptors[name]
        return bool(ready)

    def text(self, name):
        return self.written[name].decode(errors="replace")
