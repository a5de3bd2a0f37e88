/* Features of the CPU we run on, by name. Pure; any thread. */
#ifndef CV_RUNTIME_CPU_FEATURES_H
#define CV_RUNTIME_CPU_FEATURES_H

#include <stdbool.h>

#include "base/status.h"

/* "x86-64", "aarch64", or "unknown". */
const char *cv_cpu_arch(void);
/* True if CPU and system support the feature, for example "avx2" or "asimd". Unknown names: false.
 */
bool cv_cpu_has(const char *feature);
/* CV_CPU, naming what is missing, unless the arch fits and all features (comma separated, may be
 * empty) are there. `what` begins the sentence: "target x86-64-v4". CV_NOMEM. */
CV_NODISCARD cv_status cv_cpu_check(const char *what, const char *arch, const char *features);

#endif
