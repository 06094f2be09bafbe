/** What programs that were written for the LIBI of 2011 expect of this header: that it brings in these. */
#ifndef LIBI_COMMON_H
#define LIBI_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#endif
