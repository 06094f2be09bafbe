/** The headers that programs written for the LIBI of 2011 expect to be included by this one. */
#ifndef LIBI_COMMON_H
#define LIBI_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#endif
