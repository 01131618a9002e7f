# SPDX-License-Identifier: Apache-2.0
# Installs BUILD_DIR into an empty prefix under WORK_DIR and builds SOURCE_DIR against it.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(prefix ${WORK_DIR}/prefix)
file(REMOVE_RECURSE ${WORK_DIR})
foreach(component runtime devel)
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix} --config ${CONFIG}
      --component ${component})
endforeach()

run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/build -G ${GENERATOR}
    -D CMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -D CMAKE_CXX_COMPILER=${CXX}
    -D CMAKE_BUILD_TYPE=${CONFIG} -D CMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build --config ${CONFIG})
run(${WORK_DIR}/build/consumer)

# The pkg-config file is used only where the program is at hand: users of CMake need none.
find_program(pkg_config pkg-config)
file(GLOB_RECURSE pc_file ${prefix}/*/millstream.pc)
if(pkg_config)
  get_filename_component(pc_dir ${pc_file} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${pc_dir})
  execute_process(COMMAND ${pkg_config} --cflags --libs millstream
                  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags)
  run(${CXX} -std=c++20 ${SOURCE_DIR}/main.cpp -o ${WORK_DIR}/by_pkg_config ${flags})
  get_filename_component(library_dir ${pc_dir} DIRECTORY)
  set(ENV{LD_LIBRARY_PATH} ${library_dir})
  run(${WORK_DIR}/by_pkg_config)
endif()
message(STATUS "millstream ${VERSION}: installed, found, built and run")
