# SPDX-License-Identifier: Apache-2.0
# One folder under src/ = one module = one object library. The USES lists are the architecture:
# tools/check_layers.py reads them and refuses an #include they do not allow.
#
#   millstream_module(core SOURCES context.cpp task.cpp USES backend base)
#
# makes the object library `millstream_core`. A nested folder joins its names with '_':
# src/backend/host is `millstream_module(backend_host ...)`. Includes are written from src/.
# A name in USES whose module an option left out (MILLSTREAM_BACKEND_NULL=OFF) is ignored.

include_guard(GLOBAL)
set_property(GLOBAL PROPERTY MILLSTREAM_MODULES "")

function(millstream_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "millstream_module(${name}) was called wrongly; "
                        "write millstream_module(<name> SOURCES <files> [USES <modules>])")
  endif()
  set(target millstream_${name})
  add_library(${target} OBJECT ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE millstream_options)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(${target} PROPERTIES MILLSTREAM_USES "${arg_USES}")
  set_property(GLOBAL APPEND PROPERTY MILLSTREAM_MODULES ${name})
endfunction()

# The modules named and everything they use, each once, in `out`.
function(millstream_module_closure out)
  set(open ${ARGN})
  set(closed "")
  while(open)
    list(POP_FRONT open name)
    if(name IN_LIST closed OR name IN_LIST MILLSTREAM_MODULES_LEFT_OUT)
      continue()
    endif()
    if(NOT TARGET millstream_${name})
      message(FATAL_ERROR "module '${name}' is in a USES list, but no millstream_module(${name}) "
                          "exists; correct the name or add the folder in src/CMakeLists.txt")
    endif()
    list(APPEND closed ${name})
    get_target_property(uses millstream_${name} MILLSTREAM_USES)
    list(APPEND open ${uses})
  endwhile()
  set(${out} "${closed}" PARENT_SCOPE)
endfunction()

# Links the objects of the modules named, and of those they use, into `target`: a call into a module
# outside this set does not link.
function(millstream_link_modules target)
  millstream_module_closure(modules ${ARGN})
  foreach(name IN LISTS modules)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:millstream_${name}>)
  endforeach()
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endfunction()
