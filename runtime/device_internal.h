/* The rows of the device table. */
#ifndef CV_RUNTIME_DEVICE_INTERNAL_H
#define CV_RUNTIME_DEVICE_INTERNAL_H

#include "runtime/device.h"

extern const cv_device_ops cv_device_cpu;
extern const cv_device_ops cv_device_paced;

#endif
