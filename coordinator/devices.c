#include "coordinator/devices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

enum { MAX_DEVICES = 1024 };

/* Links that are not named: shared memory within a host, a gigabit network between hosts. CPU time
 * of copies as measured in wakeup mode (over TCP 0.48 s/GB to receive, 0.73 s/GB to send). */
static const cv_plan_link LOOPBACK = {5000, 20, 0, 0};
static const cv_plan_link NETWORK = {110, 200, 0.00073, 0.00048};

static const char *const KINDS[] = {"cpu", "paced", "cuda", "opencl", "hip", "vulkan", NULL};
static const char *const DEVICE_KEYS[] = {
    "name", "kind", "host", "cores", "memory", "speed", "pace_us", "pace_us_per_step", NULL};
static const char *const LINK_KEYS[] = {"a", "b", "MBps", "us", "b_to_a", NULL};
static const char *const SPEED_KEYS[] = {"MBps", "us", NULL};

void cv_devices_deinit(cv_devices *d) {
  if (!d) return;
  cv_free(d->devices);
  cv_free(d->kinds);
  cv_free(d->links);
  cv_config_destroy(d->config);
  *d = (cv_devices){0};
}

/* Index of the kind, which is added when it is new. */
static int find_kind(cv_devices *d, const char *name) {
  for (int k = 0; k < d->n_kinds; k++)
    if (strcmp(d->kinds[k], name) == 0) return k;
  d->kinds[d->n_kinds] = name;
  return d->n_kinds++;
}

/* -1: not there; n_devices: the gateway. */
static int find_device(const cv_devices *d, const char *name) {
  for (int i = 0; i < d->n_devices; i++)
    if (strcmp(d->devices[i].name, name) == 0) return i;
  return strcmp(name, "gateway") == 0 ? d->n_devices : -1;
}

static cv_status read_pace(const cv_config_node *node, bool paced, cv_plan_device *device) {
  cv_status status = CV_OK;
  CV_TRY(cv_config_read_double(node, "pace_us", false, 0, &device->pace_us));
  CV_TRY(cv_config_read_double(node, "pace_us_per_step", false, 0, &device->pace_us_per_step));
  bool any = device->pace_us > 0 || device->pace_us_per_step > 0;
  if (paced && !any)
    status = cv_config_error(node, "kind paced needs pace_us or pace_us_per_step above 0");
  if (!paced && any)
    status = cv_config_error(node, "a pace is for kind paced only; set kind: paced or remove it");
out:
  return status;
}

static cv_status read_device(const cv_config_node *node, cv_devices *d) {
  cv_plan_device device = {.speed = 1, .host = "localhost"};
  int kind = -1;
  int64_t cores = 0;
  cv_status status = CV_OK;
  CV_TRY(cv_config_only(node, DEVICE_KEYS));
  CV_TRY(cv_config_read_string(node, "name", true, &device.name));
  CV_TRY(cv_config_read_choice(node, "kind", true, KINDS, &kind));
  CV_TRY(cv_config_read_string(node, "host", false, &device.host));
  CV_TRY(cv_config_read_i64(node, "cores", false, (cv_config_range){1, 65536}, &cores));
  CV_TRY(cv_config_read_bytes(node, "memory", false, &device.memory));
  CV_TRY(cv_config_read_double(node, "speed", false, 1e-6, &device.speed));
  bool paced = strcmp(KINDS[kind], "paced") == 0;
  CV_TRY(read_pace(node, paced, &device));
  if (find_device(d, device.name) >= 0) {
    status = cv_config_error(
        cv_config_get(node, "name"), "\"%s\" is taken; names are unique%s", device.name,
        strcmp(device.name, "gateway") == 0 ? ", gateway is the gateway's" : "");
    goto out;
  }
  device.cores = (int)cores;
  device.kind = find_kind(d, paced ? "cpu" : KINDS[kind]);
  d->devices[d->n_devices++] = device;
out:
  return status;
}

/* The speed of one direction; what is not given stays. */
static cv_status read_speed(const cv_config_node *node, cv_plan_link *link) {
  double mbps = link->bytes_per_us;
  cv_status status = cv_config_read_double(node, "MBps", true, 1e-9, &mbps);
  if (status == CV_OK) status = cv_config_read_double(node, "us", false, 0, &link->latency_us);
  link->bytes_per_us = mbps; /* a MB is 1e6 bytes, so MB/s is bytes/us */
  return status;
}

static cv_status read_end(const cv_config_node *node, const char *key, const cv_devices *d,
                          int *out_device) {
  const char *name = NULL;
  *out_device = -1;
  cv_status status = cv_config_read_string(node, key, true, &name);
  if (status != CV_OK) return status;
  *out_device = find_device(d, name);
  if (*out_device < 0)
    return cv_config_error(cv_config_get(node, key),
                           "no device is named \"%s\"; name one of the devices, or gateway", name);
  return CV_OK;
}

static cv_status read_link(const cv_config_node *node, const cv_devices *d, uint8_t *seen) {
  size_t n = (size_t)d->n_devices + 1;
  int a, b;
  cv_status status = CV_OK;
  CV_TRY(cv_config_only(node, LINK_KEYS));
  CV_TRY(read_end(node, "a", d, &a));
  CV_TRY(read_end(node, "b", d, &b));
  size_t there = (size_t)a * n + (size_t)b, back = (size_t)b * n + (size_t)a;
  if (a == b || seen[there]) {
    status = cv_config_error(node, a == b ? "a link from a device to itself; remove it"
                                          : "this link was given before; remove one");
    goto out;
  }
  seen[there] = seen[back] = 1;
  CV_TRY(read_speed(node, &d->links[there]));
  d->links[back] = d->links[there];
  const cv_config_node *other = cv_config_get(node, "b_to_a");
  if (other) {
    CV_TRY(cv_config_only(other, SPEED_KEYS));
    CV_TRY(read_speed(other, &d->links[back]));
  }
out:
  return status;
}

static cv_status read_links(const cv_config_node *root, cv_devices *d) {
  const cv_config_node *list = NULL;
  size_t n = (size_t)d->n_devices + 1;
  uint8_t *seen = cv_alloc(n, n);
  if (!seen) return cv_error_nomem(n * n);
  cv_status status = CV_OK;
  CV_TRY(cv_config_read_list(root, "links", false, &list));
  for (size_t i = 0; list && i < cv_config_count(list); i++)
    CV_TRY(read_link(cv_config_item(list, i), d, seen));
out:
  cv_free(seen);
  return status;
}

static cv_status read_gateway(const cv_config_node *root, const char **out_host) {
  static const char *const keys[] = {"host", NULL};
  const cv_config_node *node = cv_config_get(root, "gateway");
  if (!node) return CV_OK;
  cv_status status = cv_config_only(node, keys);
  return status == CV_OK ? cv_config_read_string(node, "host", true, out_host) : status;
}

static cv_status allocate(cv_devices *d, size_t n) {
  d->devices = cv_alloc(n, sizeof *d->devices);
  d->kinds = cv_alloc(n, sizeof *d->kinds);
  d->links = cv_alloc((n + 1) * (n + 1), sizeof *d->links);
  if (!d->devices || !d->kinds || !d->links)
    return cv_error_nomem((n + 1) * (n + 1) * sizeof *d->links);
  return CV_OK;
}

static cv_status read_all(const cv_config_node *root, cv_devices *d) {
  static const char *const keys[] = {"devices", "links", "gateway", NULL};
  const cv_config_node *list = NULL;
  const char *gateway_host = "localhost";
  cv_status status = CV_OK;
  CV_TRY(cv_config_only(root, keys));
  CV_TRY(cv_config_read_list(root, "devices", true, &list));
  if (cv_config_count(list) > MAX_DEVICES) {
    status = cv_config_error(list, "%zu devices; at most %d", cv_config_count(list), MAX_DEVICES);
    goto out;
  }
  CV_TRY(allocate(d, cv_config_count(list)));
  for (size_t i = 0; i < cv_config_count(list); i++)
    CV_TRY(read_device(cv_config_item(list, i), d));
  CV_TRY(read_gateway(root, &gateway_host));
  cv_plan_links_default(d->devices, d->n_devices, gateway_host, &LOOPBACK, &NETWORK, d->links);
  CV_TRY(read_links(root, d));
out:
  return status;
}

/* Takes over the config. */
static cv_status of_config(cv_config *config, cv_devices *out_devices) {
  cv_devices d = {.config = config};
  cv_status status = read_all(cv_config_root(config), &d);
  if (status == CV_OK)
    *out_devices = d;
  else
    cv_devices_deinit(&d);
  return status;
}

cv_status cv_devices_load(const char *path, cv_devices *out_devices) {
  cv_config *config;
  *out_devices = (cv_devices){0};
  cv_status status = cv_config_load(path, &config);
  return status == CV_OK ? of_config(config, out_devices) : status;
}

cv_status cv_devices_parse(const char *name, const char *text, size_t size,
                           cv_devices *out_devices) {
  cv_config *config;
  *out_devices = (cv_devices){0};
  cv_status status = cv_config_parse(name, text, size, &config);
  return status == CV_OK ? of_config(config, out_devices) : status;
}

cv_status cv_devices_equal(int n, const char *kind, int cores, cv_devices *out_devices) {
  *out_devices = (cv_devices){0};
  if (n < 1 || n > MAX_DEVICES || cores < 0)
    return cv_error(CV_INVALID, "%d equal devices with %d cores; give 1 to %d devices", n, cores,
                    MAX_DEVICES);
  cv_str text = {0};
  cv_str_puts(&text, "devices:\n");
  for (int i = 0; i < n; i++) {
    cv_str_add(&text, "  - {name: w%d, kind: %s", i, kind);
    if (cores) cv_str_add(&text, ", cores: %d", cores);
    cv_str_puts(&text, "}\n");
  }
  cv_status status =
      text.failed ? cv_error_nomem(text.len)
                  : cv_devices_parse("equal devices", cv_str_text(&text), text.len, out_devices);
  cv_str_deinit(&text);
  return status;
}
