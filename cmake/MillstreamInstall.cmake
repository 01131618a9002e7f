# SPDX-License-Identifier: Apache-2.0
# Install rules. Components: runtime (the shared library), devel (headers, archive, CMake package,
# pkg-config file); the extension module adds the component python.

include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/millstream)
install(TARGETS millstream EXPORT millstream-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT devel
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT devel)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/millstream TYPE INCLUDE COMPONENT devel
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(EXPORT millstream-targets NAMESPACE millstream:: DESTINATION ${package_dir} COMPONENT devel)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/millstream-config.cmake.in
  ${PROJECT_BINARY_DIR}/millstream-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/millstream-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/millstream-config.cmake
  ${PROJECT_BINARY_DIR}/millstream-config-version.cmake
  DESTINATION ${package_dir} COMPONENT devel)

# A static library hands its own dependencies on to every program that links it.
set(pc_cflags "-pthread")
set(pc_libs "-pthread")
if(BUILD_SHARED_LIBS)
  string(APPEND pc_cflags " -DMILLSTREAM_SHARED")
else()
  foreach(library IN LISTS CMAKE_DL_LIBS)
    string(APPEND pc_libs " -l${library}")
  endforeach()
endif()
# Relative to the file itself, so that the installed folder may be moved.
file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
configure_file(${PROJECT_SOURCE_DIR}/cmake/millstream.pc.in
  ${PROJECT_BINARY_DIR}/millstream.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/millstream.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT devel)
