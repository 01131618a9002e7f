# SPDX-License-Identifier: Apache-2.0
# Test programs (GoogleTest) and their ctest entries.
#
#   millstream_test(unit_core SOURCES a_test.cpp b_test.cpp USES core
#                   [LABELS unit] [TIMEOUT 60] [ARGS --x=1] [ENVIRONMENT A=1] [LOCK name] [NO_RUN])
#
# makes the program `millstream_unit_core`, linked with the objects of the modules in USES and of
# those they use (`USES assembly` is the whole library), and one ctest entry `unit_core`, unless
# NO_RUN. GoogleTest's main is taken unless a source defines its own.
#
#   millstream_test_run(conformance_host EXECUTABLE conformance ARGS --backend=host
#                       [LABELS conformance] [TIMEOUT 60] [ENVIRONMENT A=1] [LOCK name])
#
# adds one more ctest entry for a program made above. In both, exit code 77 means "not available
# here" and counts as skipped; TIMEOUT is in seconds (default 60), times 5 in a sanitizer build.
#
#   millstream_test_with_fake_cuda(unit_cuda)
#
# makes a test program that reads tests/fakes/cuda_driver/kernels.ptx build the look-alike driver,
# and tells it where the sources are.
#
#   millstream_test_on_gpu(conformance EXECUTABLE conformance [ARGS --backend=cuda] [DEVICES 1]
#                          [CHECK memcheck] [TIMEOUT 300] [ENVIRONMENT A=1]
#                          [ALONE])
#
# adds an entry `gpu_conformance` of label `gpu` that runs the program on the real CUDA driver, with
# CHECK under a tool of compute-sanitizer, and is skipped where that or DEVICES devices are missing.
# Nothing runs beside one that says ALONE: it fills the GPU's memory, where others would find none
# and programs under compute-sanitizer were ended by a signal, or takes a busy GPU for one that
# hangs.

include_guard(GLOBAL)

function(millstream_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_RUN" "TIMEOUT;LOCK"
                        "SOURCES;USES;LABELS;ARGS;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "millstream_test(${name}) was called wrongly; "
                        "see cmake/MillstreamTest.cmake")
  endif()
  set(target millstream_${name})
  add_executable(${target} ${arg_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE millstream_options GTest::gtest GTest::gtest_main)
  # Half the compile time of -O2; what is measured and counted is in the modules.
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  millstream_link_modules(${target} ${arg_USES})
  if(NOT arg_NO_RUN)
    set(run_options "")
    foreach(keyword TIMEOUT LOCK ARGS LABELS ENVIRONMENT)
      if(arg_${keyword})
        list(APPEND run_options ${keyword} ${arg_${keyword}})
      endif()
    endforeach()
    millstream_test_run(${name} EXECUTABLE ${name} ${run_options})
  endif()
endfunction()

function(millstream_test_run name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXECUTABLE;TIMEOUT;LOCK" "ARGS;LABELS;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS OR NOT TARGET millstream_${arg_EXECUTABLE})
    message(FATAL_ERROR "millstream_test_run(${name}) was called wrongly, or there is no "
                        "millstream_test(${arg_EXECUTABLE}); see cmake/MillstreamTest.cmake")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(MILLSTREAM_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
  endif()
  add_test(NAME ${name} COMMAND millstream_${arg_EXECUTABLE} ${arg_ARGS})
  # What may take long begins first, so that no processor is left with nothing in the end.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT}
                       SKIP_RETURN_CODE 77
                       LABELS "${arg_LABELS}" ENVIRONMENT "${arg_ENVIRONMENT}")
  if(arg_LOCK)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK ${arg_LOCK})
  endif()
endfunction()

function(millstream_test_with_fake_cuda name)
  target_compile_definitions(millstream_${name} PRIVATE
    MILLSTREAM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_dependencies(millstream_${name} millstream_fake_cuda)
endfunction()

function(millstream_test_on_gpu name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE" "EXECUTABLE;DEVICES;CHECK;TIMEOUT"
                        "ARGS;ENVIRONMENT")
  if(NOT MILLSTREAM_BACKEND_CUDA)
    return()
  endif()
  if(arg_UNPARSED_ARGUMENTS OR NOT TARGET millstream_${arg_EXECUTABLE})
    message(FATAL_ERROR "millstream_test_on_gpu(${name}) was called wrongly, or there is no "
                        "millstream_test(${arg_EXECUTABLE}); see cmake/MillstreamTest.cmake")
  endif()
  set(wanted "")
  if(arg_DEVICES)
    list(APPEND wanted --devices=${arg_DEVICES})
  endif()
  if(arg_CHECK)
    list(APPEND wanted --check=${arg_CHECK})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_test(NAME gpu_${name} COMMAND millstream_on_gpu ${wanted}
                                    $<TARGET_FILE:millstream_${arg_EXECUTABLE}> ${arg_ARGS})
  set_tests_properties(gpu_${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
                       LABELS gpu ENVIRONMENT "${arg_ENVIRONMENT}")
  if(arg_ALONE)
    set_tests_properties(gpu_${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
