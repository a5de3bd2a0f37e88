/* The compiler's graph, whole: what it is made of, builders, elements, the interpreter, its text.
 */
#ifndef CV_COMPILER_GRAPH_H
#define CV_COMPILER_GRAPH_H

#include "compiler/build.h"
#include "compiler/elems.h"
#include "compiler/graph_core.h"
#include "compiler/interp.h"
#include "compiler/text.h"

#endif
