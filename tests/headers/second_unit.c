/* The other unit: all headers, twice, in the opposite order. */
#include "llaisys/backend.h"
#include "llaisys/runtime.h"
#include "llaisys.h"

#include "llaisys/backend.h"
#include "llaisys/runtime.h"
#include "llaisys.h"

#ifdef __cplusplus
extern "C"
#endif
    const LlaisysRuntimeAPI *other_unit(void);

const LlaisysRuntimeAPI *other_unit(void) {
    return llaisysGetRuntimeAPI(LLAISYS_DEVICE_CPU);
}
