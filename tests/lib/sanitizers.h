/* sanitizers: macros that are 1 if this build has a sanitizer, and 0 if not. gcc defines such macros itself; clang
   has __has_feature. */
#ifndef TESTS_LIB_SANITIZERS_H
#define TESTS_LIB_SANITIZERS_H

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

#endif
