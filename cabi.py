import ctypes,glob,os,dlblas,numpy as np
lib=[l for l in glob.glob("/work/main/build/**/libdlblas*.so*",recursive=True)]; print(lib[:3])
