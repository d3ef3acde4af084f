"""Our tasks through a real Label Studio and back, over its HTTP interface; the exports become inputs of the tests.

    python tests/cli/label_studio/round_trip.py 1.23.2 --folder /tmp/label-studio [--record]

Installs that version by pip into an environment of its own in the folder (minutes, the first time), starts it on
127.0.0.1 with its data in the folder, labels as two users would, the last rows in its page, checks what `answers` reads
from the exports, and stops it. Nothing is sent elsewhere. `--record` writes the exports beside this file. Needs
selenium, Chromium and its driver.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from skactive.cli._label_studio import Answer, answers, label_config, tasks

HERE = Path(__file__).parent
ANN, BOB = "ann@example.org", "bob@example.org"
TOKENS = {ANN: "a" * 40, BOB: "b" * 40}
LABELS = ["<5%", "a & b", 'say "yes"', "$5 or more", True, 3, " tab\tand\nline", "true", "ü"]
NAMES = {"id": "customer no.", "target": "churn?"}


def pool() -> pd.DataFrame:
    """Rows with whatever a table may hold."""
    n = 10
    frame = pd.DataFrame(
        {
            "note": ["plain", "<b>bold</b> & more", 'a "quoted" word', "two\nlines", "$n", "", None, "ü", "x", "y"],
            "income (€)": np.array([1.5, np.nan, np.inf, 0.1, 5, 6, 7, 8, 9, 10]),
            "n": pd.array([1, None, 3, 4, 5, 6, 7, 8, 9, 10], dtype="Int64"),
            "active": [True, False] * 5,
            "since": pd.to_datetime(["2026-01-31", None] * 5),
            "photo": ["/data/upload/1.png", None] * 5,
            "id": range(100, 100 + n),
            "annotator": "nobody",
            "data": "x",
            "annotations": "x",
            "skactive_row": "x",
            "a.b": "nested?",
            "$price": 3,
            "": "no name",
        }
    )
    frame.index = ["03", "7", "a b", "d", "e", "f", "g", "h", "i", "j"]
    return frame


class Server:
    """One Label Studio, and requests to it."""

    def __init__(self, folder: Path, version: str) -> None:
        self.data = folder / f"data-{version}"
        self.program = folder / f"env-{version}" / "bin" / "label-studio"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.data),
            "LABEL_STUDIO_BASE_DATA_DIR": str(self.data),
            "HTTP_PROXY": "http://127.0.0.1:9",  # where nothing listens
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost",
            "COLLECT_ANALYTICS": "false",
            "LATEST_VERSION_CHECK": "false",
            "SENTRY_DSN": "",
            "FRONTEND_SENTRY_DSN": "",
            "LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK": "true",
        }

    def install(self, version: str) -> None:
        if not self.program.exists():
            home = self.program.parents[1]
            venv.create(home, with_pip=True, clear=True)
            pip = [home / "bin" / "pip", "install", "--quiet", f"label-studio=={version}"]
            subprocess.run(pip, check=True, timeout=1200)

    def add_user(self, email: str) -> None:
        options = ["init", "--quiet", "--username", email, "--password", "not secret", "--user-token", TOKENS[email]]
        usage = subprocess.run([self.program, "init", "--help"], env=self.env, capture_output=True, timeout=120)
        if "--enable-legacy-api-token" in usage.stdout.decode():
            options.append("--enable-legacy-api-token")
        subprocess.run([self.program, *options], env=self.env, check=True, timeout=300, stdout=subprocess.DEVNULL)

    @contextmanager
    def running(self):
        command = [self.program, "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(self.port)]
        with open(self.data / "log", "wb") as log:
            process = subprocess.Popen(command, env=self.env, stdout=log, stderr=log, start_new_session=True)
            try:
                self.wait(process)
                yield
            finally:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(20)

    def wait(self, process: subprocess.Popen) -> None:
        for _ in range(180):
            if process.poll() is not None:
                break
            try:
                self.ask("GET", "/api/version")
            except OSError:
                time.sleep(1)
            else:
                return
        sys.exit(f"Label Studio did not start: see {self.data / 'log'}.")

    def ask(self, method: str, path: str, content=None, user: str = ANN):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if content is None else json.dumps(content, allow_nan=False).encode(),
            headers={"Authorization": f"Token {TOKENS[user]}", "Content-Type": "application/json"},
            method=method,
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as reply:
                text = reply.read()
        except urllib.error.HTTPError as error:
            raise OSError(f"{method} {path}: {error.code} {error.read().decode()[:2000]}") from None
        return json.loads(text) if text else None


class Project:
    """Tasks in a project, and what users do with them."""

    def __init__(self, server: Server, title: str, frame: pd.DataFrame, kind: str, guesses: list) -> None:
        self.server = server
        config = label_config(frame, labels=LABELS, kind=kind, **NAMES)
        self.control = "skactive_answer_churn_x3F_"
        self.kind = kind
        self.number = server.ask("POST", "/api/projects", {"title": title, "label_config": config})["id"]
        sent = tasks(frame, guesses=guesses, kind=kind, **NAMES)
        server.ask("POST", f"/api/projects/{self.number}/import", sent)
        got = server.ask("GET", f"/api/tasks?project={self.number}&page_size=100&fields=all")["tasks"]
        self.tasks = {task["data"]["skactive_id_customer_x20_no_x2E_"]: task["id"] for task in got}
        for task in sent:
            kept = self.task(task["data"]["skactive_id_customer_x20_no_x2E_"])
            assert kept["data"] == task["data"], (kept["data"], task["data"])
            assert len(kept["predictions"]) == len(task["predictions"])
            for prediction, ours in zip(kept["predictions"], task["predictions"], strict=True):
                assert {name: prediction[name] for name in ours} == ours, (prediction, ours)

    def task(self, row: str) -> dict:
        return self.server.ask("GET", f"/api/tasks/{self.tasks[row]}")

    def result(self, label) -> list[dict]:
        kind, name = ("textarea", "text") if self.kind == "number" else ("choices", "choices")
        return [
            {"from_name": self.control, "to_name": "skactive_row", "type": kind, "value": {name: [str(label)]}},
        ]

    def annotate(self, row: str, label, user: str = ANN, **more) -> int:
        content = {"result": [] if label is None else self.result(label), "lead_time": 2.5, **more}
        made = self.server.ask("POST", f"/api/tasks/{self.tasks[row]}/annotations/", content, user)
        time.sleep(0.01)
        return made["id"]

    def correct(self, annotation: int, label, user: str = ANN) -> None:
        self.server.ask("PATCH", f"/api/annotations/{annotation}/", {"result": self.result(label)}, user)
        time.sleep(0.01)

    def draft(self, row: str, label) -> None:
        content = {"result": self.result(label), "lead_time": 1}
        self.server.ask("POST", f"/api/tasks/{self.tasks[row]}/drafts", content)

    def export(self, form: str, everything: bool = True) -> list[dict]:
        query = f"exportType={form}&download_all_tasks={str(everything).lower()}"
        return self.server.ask("GET", f"/api/projects/{self.number}/export?{query}")

    def snapshot(self) -> list[dict]:
        """An export that names annotators by their addresses."""
        whole = {"annotations__completed_by": {"only_id": False}}
        made = self.server.ask("POST", f"/api/projects/{self.number}/exports/", {"serialization_options": whole})
        path = f"/api/projects/{self.number}/exports/{made['id']}"
        for _ in range(60):
            if self.server.ask("GET", path)["status"] == "completed":
                break
            time.sleep(0.5)
        return self.server.ask("GET", f"{path}/download?exportType=JSON")


class Page:
    """Label Studio's page, as Ann sees it."""

    def __init__(self, server: Server) -> None:
        self.home = f"http://127.0.0.1:{server.port}"
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or shutil.which("google-chrome")
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
            options.add_argument(flag)
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        self.driver.set_window_size(1500, 1400)

    def __enter__(self) -> Page:
        self.driver.get(f"{self.home}/user/login")
        self.await_one("input[name=email]").send_keys(ANN)
        self.await_one("input[name=password]").send_keys("not secret")
        self.press("Log in")
        self.until(lambda: "login" not in self.driver.current_url)
        return self

    def __exit__(self, *_) -> None:
        self.driver.quit()

    def until(self, test):
        """What the test gives, as soon as it gives something."""
        deadline = time.monotonic() + 60
        while not (found := test()):
            if time.monotonic() > deadline:
                self.driver.save_screenshot("/tmp/round_trip.png")
                raise TimeoutError("see /tmp/round_trip.png")
            time.sleep(0.2)
        return found

    def all(self, selector: str) -> list:
        return [one for one in self.driver.find_elements(By.CSS_SELECTOR, selector) if one.is_displayed()]

    def await_one(self, selector: str):
        return self.until(lambda: self.all(selector))[0]

    def press(self, text: str) -> None:
        buttons = self.until(lambda: [one for one in self.all("button") if one.text.lower() == text.lower()])
        self.driver.execute_script("arguments[0].click()", buttons[0])  # be there a message above it or not

    def shows(self, row: str) -> None:
        """Wait until the page asks for the row."""
        self.until(lambda: [one for one in self.all("td") if one.text == row])
        time.sleep(2)

    def label_all(self, project: Project) -> None:
        self.driver.get(f"{self.home}/projects/{project.number}/data?labeling=1")

    def label_classes(self, project: Project) -> None:
        self.label_all(project)
        self.shows("f")
        shown = [one.text for one in self.all("th, td")]
        frame = pool()
        assert shown[::2] == ["customer no.", *frame.columns], shown
        assert shown[1::2] == ["f", "", "6.0", "6", "False", "", "", "105", "nobody", *"xxx", "nested?", "3", "no name"]
        assert self.chosen() == ["3"], self.chosen()  # the guess
        ActionChains(self.driver).send_keys("4").perform()
        self.until(lambda: self.chosen() == ["$\u200b5 or more"])
        self.press("Submit")
        self.shows("j")
        self.press("Skip")
        time.sleep(3)

    def chosen(self) -> list[str]:
        boxes = self.driver.find_elements(By.CSS_SELECTOR, "[class*=choice] input[type=checkbox]")
        return [one.get_attribute("name") for one in boxes if one.is_selected()]

    def label_numbers(self, project: Project) -> None:
        self.label_all(project)
        self.shows("d")
        self.await_one(f"[name={project.control}]").send_keys("-0.05")
        self.press("Submit")
        time.sleep(3)


def label_classes(project: Project) -> list[Answer]:
    """Two users label; what they say of each row, in the end."""
    project.annotate("03", "<5%")
    project.annotate("7", None, was_cancelled=True)
    project.correct(project.annotate("a b", "a & b"), "$5 or more")
    first = project.annotate("d", "a & b")
    project.annotate("d", 'say "yes"')
    project.correct(first, True)  # and so becomes the later
    project.annotate("e", 3, ground_truth=True)
    project.annotate("e", "ü", BOB)
    project.draft("j", "<5%")
    project.annotate("g", " tab\tand\nline")
    project.annotate("h", None, BOB, was_cancelled=True)
    project.annotate("h", "true", BOB)
    project.annotate("i", "true")
    project.annotate("i", None, was_cancelled=True)
    return [
        Answer("03", "<5%", ANN, False),
        Answer("7", None, ANN, True),
        Answer("a b", "$5 or more", ANN, False),
        Answer("d", "True", ANN, False),
        Answer("e", "3", ANN, False),
        Answer("e", "ü", BOB, False),
        Answer("f", "$5 or more", ANN, False),
        Answer("g", " tab\tand\nline", ANN, False),
        Answer("h", "true", BOB, False),
        Answer("i", None, ANN, True),
        Answer("j", None, ANN, True),
    ]


def label_numbers(project: Project) -> list[Answer]:
    project.annotate("03", 3)
    project.correct(project.annotate("7", 1), -2.5)
    project.annotate("a b", None, was_cancelled=True)
    return [
        Answer("03", "3", ANN, False),
        Answer("7", "-2.5", ANN, False),
        Answer("a b", None, ANN, True),
        Answer("d", "-0.05", ANN, False),
    ]


def check(project: Project, said: list[Answer], users: dict[str, str]) -> dict[str, list[dict]]:
    """All exports, in which `answers` finds what was said."""
    exports = {"json": project.export("JSON"), "json_emails": project.snapshot()}
    for everything in (True, False):
        got = {
            one._replace(annotator=users.get(one.annotator, one.annotator))
            for one in answers(project.export("JSON", everything), **NAMES)
        }
        assert got == set(said), (everything, got ^ set(said))
    got = set(answers(exports["json_emails"], **NAMES))
    assert got == set(said), got ^ set(said)
    return exports


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    server = Server(options.folder.absolute(), options.version)
    server.install(options.version)
    shutil.rmtree(server.data, ignore_errors=True)
    server.data.mkdir(parents=True)
    for email in (ANN, BOB):
        server.add_user(email)
    frame = pool()
    exports = {}
    with server.running():
        print(server.ask("GET", "/api/version")["release"])
        users = {str(user["id"]): user["email"] for user in server.ask("GET", "/api/users")}
        assert set(users.values()) >= {ANN, BOB}
        guesses = [(label, 0.5) for label in LABELS] + [(None, None)]
        classes = Project(server, "classes", frame, "classes", guesses)
        numbers = Project(
            server, "numbers", frame.iloc[:4], "number", [(3, 0.5), (-1.5, None), (1e300, 1), (None, None)]
        )
        said = label_classes(classes), label_numbers(numbers)
        with Page(server) as page:
            page.label_classes(classes)
            page.label_numbers(numbers)
        exports["classes"] = check(classes, said[0], users)
        exports["numbers"] = check(numbers, said[1], users)
    for project, kinds in exports.items():
        for kind, content in kinds.items():
            print(project, kind, len(content), "tasks")
            if options.record:
                path = HERE / f"{project}_{kind}_{options.version}.json"
                path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("All as it was said.")


if __name__ == "__main__":
    main()
