#include "runtime/cpu_features.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

const char *cv_cpu_arch(void) {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

#if defined(__x86_64__)
typedef enum { EBX, ECX, EDX } reg;
/* Which registers the system must save for a feature to be usable: bits of XCR0. */
enum { OS_NONE = 0, OS_AVX = 0x06, OS_AVX512 = 0xe6 };

/* Source: Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix E. */
static const struct {
  const char *name;
  uint32_t leaf;
  reg reg;
  uint32_t bit, os;
} x86_features[] = {
    {"sse3", 1, ECX, 0, OS_NONE},          {"ssse3", 1, ECX, 9, OS_NONE},
    {"fma", 1, ECX, 12, OS_AVX},           {"cx16", 1, ECX, 13, OS_NONE},
    {"sse4.1", 1, ECX, 19, OS_NONE},       {"sse4.2", 1, ECX, 20, OS_NONE},
    {"movbe", 1, ECX, 22, OS_NONE},        {"popcnt", 1, ECX, 23, OS_NONE},
    {"avx", 1, ECX, 28, OS_AVX},           {"f16c", 1, ECX, 29, OS_AVX},
    {"bmi1", 7, EBX, 3, OS_NONE},          {"avx2", 7, EBX, 5, OS_AVX},
    {"bmi2", 7, EBX, 8, OS_NONE},          {"avx512f", 7, EBX, 16, OS_AVX512},
    {"avx512dq", 7, EBX, 17, OS_AVX512},   {"avx512cd", 7, EBX, 28, OS_AVX512},
    {"avx512bw", 7, EBX, 30, OS_AVX512},   {"avx512vl", 7, EBX, 31, OS_AVX512},
    {"avx512vnni", 7, ECX, 11, OS_AVX512}, {"lzcnt", 0x80000001, ECX, 5, OS_NONE},
};

static uint32_t saved_state(void) {
  uint32_t a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c >> 27 & 1) == 0) return 0; /* osxsave */
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  (void)high;
  return low;
}

bool cv_cpu_has(const char *feature) {
  for (size_t i = 0; i < sizeof x86_features / sizeof x86_features[0]; i++) {
    uint32_t a, b, c, d, os = x86_features[i].os;
    if (strcmp(x86_features[i].name, feature) != 0) continue;
    if (!__get_cpuid_count(x86_features[i].leaf, 0, &a, &b, &c, &d)) return false;
    uint32_t word = x86_features[i].reg == EBX ? b : x86_features[i].reg == ECX ? c : d;
    return (word >> x86_features[i].bit & 1) != 0 && (saved_state() & os) == os;
  }
  return false;
}
#elif defined(__aarch64__)
/* Source: Linux, arch/arm64/include/uapi/asm/hwcap.h. */
static const struct {
  const char *name;
  unsigned bit;
} arm_features[] = {
    {"fp", 0}, {"asimd", 1}, {"fphp", 9}, {"asimdhp", 10}, {"asimddp", 20}, {"sve", 22},
};

bool cv_cpu_has(const char *feature) {
  for (size_t i = 0; i < sizeof arm_features / sizeof arm_features[0]; i++) {
    if (strcmp(arm_features[i].name, feature) == 0) {
      return (getauxval(AT_HWCAP) >> arm_features[i].bit & 1) != 0;
    }
  }
  return false;
}
#else
bool cv_cpu_has(const char *feature) {
  (void)feature;
  return false;
}
#endif

cv_status cv_cpu_check(const char *what, const char *arch, const char *features) {
  cv_str missing = {0};
  cv_status status = CV_OK;
  if (strcmp(arch, cv_cpu_arch()) != 0) {
    return cv_error(CV_CPU, "%s needs a CPU of kind %s; this one is %s", what, arch, cv_cpu_arch());
  }
  for (const char *at = features; *at != '\0';) {
    char name[32];
    size_t n = strcspn(at, ",");
    size_t kept = n < sizeof name ? n : sizeof name - 1;
    memcpy(name, at, kept);
    name[kept] = '\0';
    if (n > 0 && !cv_cpu_has(name)) cv_str_add(&missing, "%s%s", missing.len > 0 ? ", " : "", name);
    at += n;
    if (*at == ',') at++;
  }
  if (missing.failed) {
    status = cv_error_nomem(sizeof missing);
  } else if (missing.len > 0) {
    status = cv_error(CV_CPU, "%s needs CPU features that this CPU lacks: %s", what,
                      cv_str_text(&missing));
  }
  cv_str_deinit(&missing);
  return status;
}
