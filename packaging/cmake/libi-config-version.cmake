# Reads the installed version from the header. It is compatible with requests for the same or an older
# version of the same series: 0.1 before 1.0, where a minor version may break programs, and 1 after that.

get_filename_component(_libi_header "${CMAKE_CURRENT_LIST_DIR}/../../../include/libi.h" ABSOLUTE)
foreach(_libi_part MAJOR MINOR PATCH)
  file(STRINGS "${_libi_header}" _libi_line REGEX "^#define LIBI_VERSION_${_libi_part} [0-9]+$")
  string(REGEX REPLACE ".* " "" _libi_${_libi_part} "${_libi_line}")
endforeach()
set(PACKAGE_VERSION "${_libi_MAJOR}.${_libi_MINOR}.${_libi_PATCH}")

set(PACKAGE_VERSION_COMPATIBLE FALSE)
set(PACKAGE_VERSION_EXACT FALSE)
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION
    AND "${PACKAGE_FIND_VERSION_MAJOR}" EQUAL _libi_MAJOR)
  if(_libi_MAJOR GREATER 0 OR PACKAGE_FIND_VERSION_COUNT LESS 2
      OR "${PACKAGE_FIND_VERSION_MINOR}" EQUAL _libi_MINOR)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
  endif()
endif()

unset(_libi_header)
unset(_libi_line)
unset(_libi_part)
unset(_libi_MAJOR)
unset(_libi_MINOR)
unset(_libi_PATCH)
