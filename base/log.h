/* Log lines on stderr: "cuvil[name] level: text". The level is the only mutable global. Any thread.
 */
#ifndef CV_BASE_LOG_H
#define CV_BASE_LOG_H

typedef enum { CV_LOG_ERROR, CV_LOG_WARN, CV_LOG_INFO, CV_LOG_DEBUG } cv_log_level;

/* Level from CUVIL_LOG (error, warn, info, debug; default warn), and the name in front of each
 * line. */
void cv_log_init(const char *name);
void cv_log_set_level(cv_log_level level);
#define cv_log_error(...) cv_log_at(CV_LOG_ERROR, __VA_ARGS__)
#define cv_log_warn(...) cv_log_at(CV_LOG_WARN, __VA_ARGS__)
#define cv_log_info(...) cv_log_at(CV_LOG_INFO, __VA_ARGS__)
#define cv_log_debug(...) cv_log_at(CV_LOG_DEBUG, __VA_ARGS__)
/* One write(2) a line, so that lines of several processes do not mix. */
void cv_log_at(cv_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
