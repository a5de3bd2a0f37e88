"""A throw-away source tree for the tests of the lints."""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "scripts")


class LintCase(unittest.TestCase):
    lint = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, path, text):
        whole = os.path.join(self.folder.name, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)

    def run_lint(self, *arguments):
        environment = {key: value for key, value in os.environ.items() if key != "CUVIL_BUILD"}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        done = subprocess.run([sys.executable, os.path.join(SCRIPTS, self.lint), "--root", self.folder.name, *arguments],
                              capture_output=True, text=True, env=environment)
        return done.returncode, done.stdout + done.stderr

    def assert_clean(self, *arguments):
        code, text = self.run_lint(*arguments)
        self.assertEqual(code, 0, text)

    def assert_complains(self, about, *arguments):
        code, text = self.run_lint(*arguments)
        self.assertEqual(code, 1, text)
        self.assertIn(about, text)
