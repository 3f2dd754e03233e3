from kernelpin.kineto.decode import *
from kernelpin.kineto.decode import _EVENTS,_TOP,_ARGS,load_trace
