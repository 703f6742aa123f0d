/* One of two units of a program: all headers, twice, in this order. Valid C99, C11 and C++17. */
#include "llaisys.h"
#include "llaisys/runtime.h"
#include "llaisys/backend.h"

#include "llaisys.h"
#include "llaisys/runtime.h"
#include "llaisys/backend.h"

#ifdef __cplusplus
extern "C"
#endif
    const LlaisysRuntimeAPI *other_unit(void);

int main(void) {
    /* Both units mean the same table. */
    return other_unit() == llaisysGetRuntimeAPI(LLAISYS_DEVICE_CPU) ? 0 : 1;
}
