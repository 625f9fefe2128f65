"""A headless Chromium, driven over a pair of pipes: no package is needed."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


class Page:
    """One page. `errors` collects what it writes to the console as an error, and exceptions nobody caught."""

    def __init__(self, url, width=1280, height=900, dark=False):
        self.folder = tempfile.mkdtemp(prefix="tritium-browser-")
        command_read, self.commands = os.pipe()
        self.answers, answer_write = os.pipe()

        def place():  # the browser reads commands from file 3 and answers to file 4
            os.dup2(command_read, 100)
            os.dup2(answer_write, 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
                     f"--user-data-dir={self.folder}", f"--window-size={width},{height}", "about:blank"]  # fmt: skip
        self.process = subprocess.Popen([CHROMIUM, *arguments], close_fds=False, preexec_fn=place,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(command_read)
        os.close(answer_write)
        self.number, self.pending, self.errors = 0, b"", []
        target = self.call("Target.createTarget", session=None, url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", session=None, targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Performance.enable", timeDomain="threadTicks")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.open(url)

    def open(self, url):
        """Go to another page, and wait until it is whole."""
        self.call("Page.navigate", url=url)
        ready = "true" if url == "about:blank" else "document.documentElement?.dataset.ready === 'yes'"
        self.wait(f"location.href === {url!r} && {ready}")

    def opening(self):
        """Seconds from asking for the page until it was loaded, its script had run, and something was painted."""
        self.wait("performance.getEntriesByType('navigation')[0].loadEventEnd > 0"
                  " && performance.getEntriesByType('paint').length > 0")
        return self.value("Math.max(performance.getEntriesByType('navigation')[0].loadEventEnd,"
                          " ...performance.getEntriesByType('paint').map(p => p.startTime))") / 1000

    def work(self):
        """Seconds of processor time that the page's thread has taken."""
        found = self.call("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in found if metric["name"] == "TaskDuration")

    def call(self, method, session="", **params):
        """Send a command and give its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self.number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return found["result"]

    def _next(self):
        while b"\0" not in self.pending:
            chunk = os.read(self.answers, 1 << 16)
            if not chunk:
                raise RuntimeError("the browser ended")
            self.pending += chunk
        text, _, self.pending = self.pending.partition(b"\0")
        found = json.loads(text)
        if found.get("method") == "Runtime.exceptionThrown":
            self.errors.append(found["params"]["exceptionDetails"]["text"])
        if found.get("method") == "Log.entryAdded" and found["params"]["entry"]["level"] == "error":
            self.errors.append(found["params"]["entry"]["text"])
        return found

    def value(self, expression):
        """What an expression of JavaScript gives."""
        made = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in made:
            raise RuntimeError(f"{expression}: {made['exceptionDetails']}")
        return made["result"].get("value")

    def wait(self, condition, seconds=20):
        """Wait until an expression holds."""
        end = time.monotonic() + seconds
        while not self.value(condition):
            if time.monotonic() > end:
                raise AssertionError(f"{condition} did not come true; the console said {self.errors}")
            time.sleep(0.05)

    def key(self, name, code=0):
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def point(self, selector, x, y, click=False):
        """Move the mouse to a place inside an element, given as shares of its width and height; perhaps click."""
        self.value(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = self.value(f"(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect();"
                         " return [r.left, r.top, r.width, r.height]; })()")
        at = {"x": box[0] + x * box[2], "y": box[1] + y * box[3]}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **at)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def screenshot(self, path, whole=True):
        """Write a picture of the page."""
        made = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(made["data"]))

    def close(self):
        """End the browser."""
        self.process.terminate()
        self.process.wait(20)
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.folder, ignore_errors=True)
