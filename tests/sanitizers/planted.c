/* Two faults, so that a run under a sanitizer shows that the sanitizer is in: a read of memory that was
 * freed, and memory that nobody gives back. The program itself ends with 0. */
#include <stdio.h>
#include <stdlib.h>

static char *volatile lost;

int main(void) {
    char *volatile freed = malloc(32);
    freed[7] = 1;
    free((void *)freed);
    lost = malloc(4321);
    printf("%d\n", freed[7]);
    lost = NULL;
    return 0;
}
