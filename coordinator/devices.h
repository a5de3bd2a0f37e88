/* Devices and links as the user writes them (YAML, docs/commands.md), as the planner takes them. */
#ifndef CV_COORDINATOR_DEVICES_H
#define CV_COORDINATOR_DEVICES_H

#include "base/config.h"
#include "base/status.h"
#include "partitioner/partitioner.h"

typedef struct {
  int n_devices, n_kinds;
  cv_plan_device *devices;
  const char **kinds;  /* [n_kinds] distinct kinds in use; device.kind indexes them. "paced" is
                          the kind "cpu" with a pace */
  cv_plan_link *links; /* [n_devices + 1][n_devices + 1], as in cv_plan_input */
  cv_config *config;   /* owns the strings */
} cv_devices;

/* Reads a file. Links that it does not name are `loopback` within a host and `network` between
 * hosts (a device without host is on "localhost", like the gateway unless the file has
 * `gateway: {host: H}`); the name "gateway" stands for the gateway in links. CV_IO, or CV_INVALID
 * with file, line, key and remedy. The result is the caller's (cv_devices_deinit). Blocks. */
CV_NODISCARD cv_status cv_devices_load(const char *path, cv_devices *out_devices);
/* The same from memory. */
CV_NODISCARD cv_status cv_devices_parse(const char *name, const char *text, size_t size,
                                        cv_devices *out_devices);
/* `n` equal devices "w0", "w1", ... of one kind on this host, for `--stages N`. */
CV_NODISCARD cv_status cv_devices_equal(int n, const char *kind, int cores,
                                        cv_devices *out_devices);
/* Accepts a zeroed struct. */
void cv_devices_deinit(cv_devices *devices);

#endif
