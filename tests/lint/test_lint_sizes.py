"""scripts/lint-sizes measures functions as a reader would, and its allow-list only shrinks."""
import subprocess
import unittest

from lint_case import LintCase

DEEP = """
int f(int n) {
  for (int i = 0; i < n; i++)
    while (n > i) {
      if (n) n--;
      else if (i) n -= 2;
      else {
        switch (i) {
          case 1: do { n--; } while (n);
        }
      }
    }
  return n;
}
"""


def function(lines, name="f", arguments="void"):
    return f"int {name}({arguments}) {{\n" + "  step();\n" * (lines - 2) + "}\n"


class Sizes(LintCase):
    lint = "lint-sizes"

    def test_clean_tree(self):
        self.write("base/a.c", function(100) + function(100, "g"))
        self.assert_clean()

    def test_long_function(self):
        self.write("base/a.c", function(101))
        self.assert_complains("base/a.c:f: function-lines 101 is over the limit 100")

    def test_long_file_and_header(self):
        self.write("base/a.c", "int x;\n" * 801)
        self.assert_complains("base/a.c: file-lines 801")
        self.write("base/a.c", "int x;\n")
        self.write("base/a.h", "int x;\n" * 251)
        self.assert_complains("base/a.h: header-lines 251")

    def test_private_headers_and_those_of_tests_may_be_longer(self):
        self.write("base/a_internal.h", "int x;\n" * 400)
        self.write("tests/base/a.h", "int x;\n" * 400)
        self.assert_clean()
        self.write("base/a_internal.h", "int x;\n" * 401)
        self.write("tests/base/a.h", "int x;\n" * 401)
        self.assert_complains("base/a_internal.h: private-header-lines 401")
        self.assert_complains("tests/base/a.h: private-header-lines 401")

    def test_parameters(self):
        self.write("base/a.c", function(3, arguments="int a, int b, int (*c)(int, int), int d, int e, int f"))
        self.assert_clean()
        self.write("base/a.c", function(3, arguments="int a, int b, int c, int d, int e, int f, int g"))
        self.assert_complains("base/a.c:f: parameters 7")

    def test_nesting_counts_statements_with_and_without_braces(self):
        self.write("base/a.c", DEEP)
        self.assert_complains("base/a.c:f: nesting 5")

    def test_initialisers_and_literals_do_not_nest(self):
        self.write("base/a.c", 'struct s x = {{{{{{1}}}}}};\nint f(void) {\n  int a[1][1] = {{1}};\n  g((struct s){{{{{0}}}}}, "{{{{{");\n'
                               "  return '{';\n}\n")
        self.assert_clean()

    def test_branches_of_the_preprocessor(self):
        self.write("base/a.c", "#if X\nint f(int a) {\n#else\nint f(void) {\n#endif\n  return 1;\n}\n" + function(101, "g"))
        self.assert_complains("base/a.c:g: function-lines 101")

    def test_allowed_value_must_be_the_present_one(self):
        self.write("base/a.c", function(120))
        self.write("scripts/size-allow.txt", "function-lines base/a.c:f 120 # why\n")
        self.assert_clean()
        self.write("base/a.c", function(121))
        self.assert_complains("function-lines grew from 120 to 121")
        self.write("base/a.c", function(119))
        self.assert_complains("shrink the entry 120")
        self.write("base/a.c", function(90))
        self.assert_complains("remove the entry")

    def test_list_may_not_grow_beyond_upstream(self):
        self.write("scripts/size-allow.txt", "function-lines base/a.c:f 120\n")
        self.write("base/a.c", function(120))
        git = ["git", "-C", self.folder.name, "-c", "user.name=t", "-c", "user.email=t@example.org"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "t"], ["update-ref", "refs/remotes/origin/main", "HEAD"]):
            subprocess.run(git + command, check=True)
        self.assert_clean()
        self.write("base/b.c", function(130))
        self.write("scripts/size-allow.txt", "function-lines base/a.c:f 120\nfunction-lines base/b.c:f 130\n")
        self.assert_complains("'function-lines base/b.c:f 130' is new or larger")


if __name__ == "__main__":
    unittest.main()
