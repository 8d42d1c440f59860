# What CPack needs to know of the Debian package; tools/deb.sh sets the variables of the environment
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME plimsoll)
set(CPACK_PACKAGE_VERSION $ENV{DEB_VERSION})
set(CPACK_PACKAGE_VENDOR Plimsoll)
set(CPACK_PACKAGE_FILE_NAME plimsoll_$ENV{DEB_VERSION}_$ENV{DEB_ARCHITECTURE})
set(CPACK_PACKAGE_DIRECTORY $ENV{DEB_OUTPUT})
set(CPACK_INSTALLED_DIRECTORIES $ENV{DEB_STAGE} /)
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "make deep-learning training fit in GPU memory")
set(CPACK_PACKAGE_DESCRIPTION
    "Predicts the GPU memory of a training run from its configuration files, finds
the fastest settings that fit and writes them into the files, checks a run
before it starts, explains why one ran out of memory, and shows what held the
memory in PyTorch's snapshots. It needs neither a GPU nor Python.")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Plimsoll authors <maintainers@plimsoll.invalid>")
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE $ENV{DEB_ARCHITECTURE})
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# By the libraries that the program and those of `simulate` and `run` need. One of these needs another of them.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS $ENV{DEB_STAGE}/usr/lib/plimsoll)
# curl: for --fetch and run --notify, which are the only uses of the network.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "curl, ca-certificates")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
