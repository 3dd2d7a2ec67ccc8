/* SPDX-License-Identifier: MIT */
/* The primes up to a number. For a program that can only print: the envelope on stdout, between the
 * two markers that brig made for this call. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    int up_to = 0, first = 1;
    if (scanf("{ \"up_to\" : %d }", &up_to) != 1)
        return 2;
    printf("looking at %d numbers\n", up_to);
    printf("%s{\"status\": \"success\", \"output\": {\"primes\": [", getenv("BRIG_RESULT_BEGIN"));
    for (int n = 2; n <= up_to; n++) {
        int d = 2;
        while (d * d <= n && n % d)
            d++;
        if (d * d > n) {
            printf("%s%d", first ? "" : ", ", n);
            first = 0;
        }
    }
    printf("]}}%s\n", getenv("BRIG_RESULT_END"));
    return 0;
}
