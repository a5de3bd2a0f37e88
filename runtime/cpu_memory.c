/* Memory of the CPU device: regions, the budget. */
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "runtime/cpu_internal.h"

#define HUGE_PAGE ((uint64_t)2 << 20)

static cv_status map_huge(uint64_t bytes, cpu_region *out_region) {
  if (bytes > SIZE_MAX - 2 * HUGE_PAGE) return cv_error_nomem(bytes);
  uint64_t rounded = (bytes + 4095) & ~(uint64_t)4095, length = rounded + HUGE_PAGE;
  char *raw = cv_fault()
                  ? MAP_FAILED
                  : mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return cv_error_nomem(bytes);
  uint64_t skip = -(uintptr_t)raw & (HUGE_PAGE - 1);
  if (skip) munmap(raw, skip);
  munmap(raw + skip + rounded, HUGE_PAGE - skip);
  (void)madvise(raw + skip, rounded, MADV_HUGEPAGE); /* a hint: small pages do as well */
  *out_region = (cpu_region){.base = raw + skip, .bytes = bytes, .mapped = rounded};
  return CV_OK;
}

cv_status cpu_region_alloc(uint64_t bytes, cpu_region *out_region) {
  *out_region = (cpu_region){0};
  if (bytes >= HUGE_PAGE / 2) return map_huge(bytes, out_region);
  void *base = cv_alloc_aligned(64, bytes ? bytes : 64);
  if (!base) return cv_error_nomem(bytes);
  *out_region = (cpu_region){.base = base, .bytes = bytes};
  return CV_OK;
}

void cpu_region_free(cpu_region *region) {
  if (region->mapped)
    munmap(region->base, region->mapped);
  else
    cv_free(region->base);
  *region = (cpu_region){0};
}

cv_status cpu_reserve(cpu_device *device, uint64_t bytes, const char *what) {
  cv_status status = CV_OK;
  pthread_mutex_lock(&device->lock);
  uint64_t free_bytes = device->limit > device->used ? device->limit - device->used : 0;
  if (device->limit && bytes > free_bytes)
    status = cv_error(CV_INFEASIBLE,
                      "device %s: %s needs %" PRIu64 " bytes, %" PRIu64 " of %" PRIu64
                      " are free: give the device fewer steps or more memory",
                      device->name, what, bytes, free_bytes, device->limit);
  else
    device->used += bytes;
  pthread_mutex_unlock(&device->lock);
  return status;
}

void cpu_unreserve(cpu_device *device, uint64_t bytes) {
  pthread_mutex_lock(&device->lock);
  device->used -= bytes;
  pthread_mutex_unlock(&device->lock);
}

cv_status cpu_region_grow(cpu_device *device, cpu_region *region, uint64_t bytes,
                          const char *what) {
  if (region->base && region->bytes >= bytes) return CV_OK;
  cpu_region_release(device, region);
  cv_status status = cpu_reserve(device, bytes, what);
  if (status != CV_OK) return status;
  status = cpu_region_alloc(bytes, region);
  if (status != CV_OK) cpu_unreserve(device, bytes);
  return status;
}

void cpu_region_release(cpu_device *device, cpu_region *region) {
  if (!region->base) return;
  cpu_unreserve(device, region->bytes);
  cpu_region_free(region);
}
