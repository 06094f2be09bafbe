/* Prints the version of the header and of the library. */

#include <stdio.h>

#include <libi.h>

#if LIBI_VERSION_NUMBER != LIBI_VERSION_MAJOR * 1000000 + LIBI_VERSION_MINOR * 1000 + LIBI_VERSION_PATCH
#error "the preprocessor does not see the version number"
#endif
#if LIBI_VERSION_NUMBER + 1 != LIBI_VERSION_NUMBER - (-1) || \
    2 * LIBI_VERSION_NUMBER != LIBI_VERSION_NUMBER * 2
#error "the version number is not parenthesised"
#endif

int main(void)
{
    printf("%d.%d.%d %d\n", LIBI_VERSION_MAJOR, LIBI_VERSION_MINOR, LIBI_VERSION_PATCH, LIBI_VERSION_NUMBER);
    printf("%s %u\n", libi_version_text(), (unsigned)libi_version());
    return 0;
}
