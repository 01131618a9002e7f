// SPDX-License-Identifier: Apache-2.0
/// The whole C++ API. `namespace ms = millstream;` is the recommended abbreviation.
#pragma once

#include <millstream/access.hpp>   // read, write, rw
#include <millstream/array.hpp>    // what wait() gives back
#include <millstream/context.hpp>  // start here
#include <millstream/data.hpp>     // logical_data, token
#include <millstream/error.hpp>    // the one exception type
#include <millstream/kernel.hpp>   // device code
#include <millstream/kernel_task.hpp>
#include <millstream/machine.hpp>  // devices of one backend
#include <millstream/parallel_for.hpp>
#include <millstream/place.hpp>   // where tasks run and data is kept
#include <millstream/reduce.hpp>  // reducer::sum, ...
#include <millstream/shape.hpp>   // shape, box
#include <millstream/task.hpp>    // options, stream, dynamic tasks
#include <millstream/trace.hpp>   // observation
#include <millstream/untyped.hpp>
#include <millstream/version.hpp>
#include <millstream/view.hpp>  // what bodies get
