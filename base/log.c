#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const char *const level_words[] = {"error", "warn", "info", "debug"};
static atomic_int log_level = CV_LOG_WARN;
static char log_name[64];

void cv_log_init(const char *name) {
  snprintf(log_name, sizeof log_name, "%s", name);
  const char *wanted = getenv("CUVIL_LOG");
  for (int i = 0; wanted && i <= CV_LOG_DEBUG; i++)
    if (strcmp(wanted, level_words[i]) == 0) atomic_store(&log_level, i);
}

void cv_log_set_level(cv_log_level level) { atomic_store(&log_level, (int)level); }

void cv_log_at(cv_log_level level, const char *format, ...) {
  if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed)) return;
  char line[2048];
  int used =
      snprintf(line, sizeof line, "%s: %s: ", log_name[0] ? log_name : "cuvil", level_names[level]);
  va_list args;
  va_start(args, format);
  int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
  va_end(args);
  size_t length = strlen(line);
  if (more < 0) return;
  line[length++] = '\n';
  if (write(STDERR_FILENO, line, length) < 0) return; /* nowhere left to say it */
}
