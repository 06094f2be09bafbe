# find_package(libi): defines the targets libi::libi (liblibi.so) and libi::libi_static (liblibi.a), each
# if its library is installed.
#
# All paths are relative to this file, in share/cmake/libi, so the installation can be moved.

get_filename_component(_libi_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_libi_places lib)
if(CMAKE_SIZEOF_VOID_P EQUAL 8)
  list(INSERT _libi_places 0 lib64)
endif()
if(CMAKE_LIBRARY_ARCHITECTURE)
  list(INSERT _libi_places 0 "lib/${CMAKE_LIBRARY_ARCHITECTURE}")
endif()
set(_libi_libdir "")
foreach(_libi_place IN LISTS _libi_places)
  set(_libi_place "${_libi_prefix}/${_libi_place}")
  if(NOT _libi_libdir AND (EXISTS "${_libi_place}/liblibi.so" OR EXISTS "${_libi_place}/liblibi.a"))
    set(_libi_libdir "${_libi_place}")
  endif()
endforeach()
if(NOT _libi_libdir)
  set(libi_FOUND FALSE)
  set(libi_NOT_FOUND_MESSAGE
    "Neither liblibi.so nor liblibi.a is in these directories of ${_libi_prefix}: ${_libi_places}.")
endif()

if(EXISTS "${_libi_libdir}/liblibi.so" AND NOT TARGET libi::libi)
  add_library(libi::libi SHARED IMPORTED)
  set_target_properties(libi::libi PROPERTIES
    IMPORTED_LOCATION "${_libi_libdir}/liblibi.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_libi_prefix}/include")
endif()

if(EXISTS "${_libi_libdir}/liblibi.a" AND NOT TARGET libi::libi_static)
  # libi.pc names the libraries that liblibi.a needs. The compiler adds its runtime and the C library.
  set(_libi_private "")
  if(EXISTS "${_libi_libdir}/pkgconfig/libi.pc")
    file(STRINGS "${_libi_libdir}/pkgconfig/libi.pc" _libi_private REGEX "^Libs\\.private:")
    string(REGEX MATCHALL "-l[A-Za-z0-9_+.-]+" _libi_private "${_libi_private}")
    list(REMOVE_ITEM _libi_private -lgcc_s -lc)
  endif()
  add_library(libi::libi_static STATIC IMPORTED)
  set_target_properties(libi::libi_static PROPERTIES
    IMPORTED_LOCATION "${_libi_libdir}/liblibi.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES C
    INTERFACE_INCLUDE_DIRECTORIES "${_libi_prefix}/include"
    INTERFACE_LINK_LIBRARIES "${_libi_private}")
endif()

unset(_libi_prefix)
unset(_libi_places)
unset(_libi_place)
unset(_libi_libdir)
unset(_libi_private)
