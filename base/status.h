/* Status codes and the sentence that goes with them. */
#ifndef CV_BASE_STATUS_H
#define CV_BASE_STATUS_H

#include <stdarg.h>

/* code, exit code of a command that ends with it, text */
#define CV_STATUS_MAP(X)                  \
  X(OK, 0, "ok")                          \
  X(NOMEM, 1, "out of memory")            \
  X(FAILED, 1, "failed")                  \
  X(CANCELED, 1, "canceled")              \
  X(INTERNAL, 1, "internal error")        \
  X(AGAIN, 1, "not ready yet")            \
  X(INVALID, 2, "invalid input")          \
  X(UNSUPPORTED, 2, "not supported")      \
  X(IO, 2, "input or output failed")      \
  X(VERSION, 2, "version mismatch")       \
  X(CORRUPT, 2, "damaged data")           \
  X(CPU, 2, "the code needs another CPU") \
  X(INFEASIBLE, 3, "no feasible plan")    \
  X(PEER_LOST, 4, "a peer was lost")      \
  X(TIMEOUT, 4, "timed out")

typedef enum {
#define X(name, exit, text) CV_##name,
  CV_STATUS_MAP(X)
#undef X
} cv_status_code;

/* nodiscard: a status that nobody looks at is a bug. */
typedef cv_status_code cv_status;
#define CV_NODISCARD __attribute__((warn_unused_result))

/* Sets this thread's sentence (printf form; name the file, node, op, shape or value and the remedy)
 * and returns `code`, so that a check reads `return cv_error(CV_INVALID, "...")`. Remembers the
 * source line for debugging. */
#define cv_error(code, ...) cv_error_at(code, __FILE__, __LINE__, __VA_ARGS__)
cv_status cv_error_at(cv_status code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "prefix: " before this thread's sentence, returns `code` unchanged; a no-op for CV_OK. */
cv_status cv_error_context(cv_status code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* This thread's last sentence, valid until its next error; never NULL. */
const char *cv_error_text(void);
/* "file:line" of the place where that sentence was set. */
const char *cv_error_place(void);
/* Short text of a code, for example "invalid input". */
const char *cv_status_text(cv_status code);
/* The exit code of docs/commands.md for a command that ends with this status. */
int cv_status_exit_code(cv_status code);

/* Goes to the function's `out:` label with the status kept in the local `status`. */
#define CV_TRY(expression)         \
  do {                             \
    status = (expression);         \
    if (status != CV_OK) goto out; \
  } while (0)

#endif
