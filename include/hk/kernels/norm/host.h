// The host's schedule of layer and RMS norm: norm_forward_host and norm_backward_host.
#pragma once

#include "hk/kernels/norm/host_backward.h"
#include "hk/kernels/norm/host_forward.h"
