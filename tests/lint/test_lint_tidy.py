"""scripts/lint-tidy counts what clang-tidy finds, against a list that only shrinks."""
import json
import os
import shutil
import subprocess
import sys
import unittest

from lint_case import SCRIPTS, LintCase

SLIP = "#include <string.h>\n\nvoid f(char *p);\nvoid f(char *p) { memset(p, sizeof(char), 0); }\n"
CLEAN = "#include <string.h>\n\nvoid f(char *p);\nvoid f(char *p) { memset(p, 0, 1); }\n"
TANGLED = "int g(int n);\nint g(int n) {\n" + "  if (n) { while (n > 3) { if (n % 2) n--; } }\n" * 6 + "  return n;\n}\n"


class Tidy(LintCase):
    lint = "lint-tidy"

    def setUp(self):
        super().setUp()
        root = self.folder.name
        os.makedirs(f"{root}/scripts")
        for name in ("lint-tidy", "lint_common.py"):
            shutil.copy(os.path.join(SCRIPTS, name), f"{root}/scripts/{name}")
        shutil.copy(os.path.join(os.path.dirname(SCRIPTS), ".clang-tidy"), f"{root}/.clang-tidy")
        self.write("build/clang/compile_commands.json", json.dumps(
            [{"directory": root, "file": f"{root}/base/a.c", "command": f"clang -c {root}/base/a.c"}]))

    def run_lint(self, *arguments):
        done = subprocess.run([sys.executable, "-B", f"{self.folder.name}/scripts/lint-tidy", *arguments],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_a_finding_is_counted_and_the_list_shrinks(self):
        self.write("base/a.c", SLIP)
        self.assert_complains("base/a.c: bugprone-suspicious-memset-usage 1 is over the limit 0")
        self.write("scripts/tidy-allow.txt", "bugprone-suspicious-memset-usage base/a.c 1\n")
        self.assert_clean()
        self.write("base/a.c", CLEAN)
        self.assert_complains("remove the entry")

    def test_complexity_is_a_value_per_function(self):
        self.write("base/a.c", TANGLED)
        self.assert_complains("base/a.c:g: complexity 36 is over the limit 25")
        self.write("scripts/tidy-allow.txt", "complexity base/a.c:g 36\n")
        self.assert_clean()

    def test_what_does_not_compile_is_no_success(self):
        self.write("base/a.c", "int f(void) { return nothing; }\n")
        self.assert_complains("base/a.c")

    def test_a_missing_build_is_said(self):
        os.remove(f"{self.folder.name}/build/clang/compile_commands.json")
        self.assert_complains("cmake --preset clang")


if __name__ == "__main__":
    unittest.main()
