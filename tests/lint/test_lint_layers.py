"""scripts/lint-layers finds each kind of breach, and nothing in a clean tree."""
import unittest

from lint_case import LintCase


class Layers(LintCase):
    lint = "lint-layers"

    def setUp(self):
        super().setUp()
        self.write("base/a.h", "#ifndef A_H\n#define A_H\ntypedef int a;\n#endif\n")
        self.write("base/a.c", '#include "base/a.h"\n\n#include <stdio.h>\n')
        self.write("coordinator/messages.h", "#ifndef M_H\n#define M_H\ntypedef int message;\n#endif\n")
        self.write("coordinator/server.h", "#ifndef S_H\n#define S_H\ntypedef int server;\n#endif\n")
        self.write("workers/w.c", '#include "coordinator/messages.h"\n#include "base/a.h"\n')

    def test_clean_tree(self):
        self.assert_clean()

    def test_upward_include(self):
        self.write("base/b.c", '#include "runtime/device.h"\n')
        self.write("runtime/device.h", "typedef int device;\n")
        self.assert_complains("base/ may not include runtime/device.h")

    def test_only_the_messages_of_the_coordinator(self):
        self.write("workers/w.c", '#include "coordinator/server.h"\n')
        self.assert_complains("workers/ may not include coordinator/server.h")

    def test_include_that_is_not_rooted(self):
        self.write("base/b.c", '#include "a.h"\n')
        self.assert_complains('"a.h" is no path from the root')

    def test_own_header_comes_first(self):
        self.write("base/a.c", '#include <stdio.h>\n#include "base/a.h"\n')
        self.assert_complains("must be its first include")

    def test_own_header_is_not_included(self):
        self.write("base/a.c", "int x;\n")
        self.assert_complains("must be its first include")

    def test_internal_header_of_another_folder(self):
        self.write("runtime/x_internal.h", "typedef int x;\n")
        self.write("compiler/c.c", '#include "runtime/x_internal.h"\n')
        self.assert_complains("private to runtime/")

    def test_cycle(self):
        self.write("base/p.h", '#include "base/q.h"\n')
        self.write("base/q.h", '#include "base/p.h"\n')
        self.assert_complains("include cycle: base/p.h -> base/q.h -> base/p.h", "--no-compile")

    def test_header_that_needs_another(self):
        self.write("base/b.h", "a needs_the_type_a(void);\n")
        self.assert_complains("base/b.h: does not compile alone")

    def test_include_in_a_comment_is_none(self):
        self.write("base/b.c", '/*\n#include "runtime/none.h"\n*/\n')
        self.assert_clean()


if __name__ == "__main__":
    unittest.main()
