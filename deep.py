import dlblas, numpy as np, sys
@dlblas.register("rms_norm","deep")
def deep(x,weight,eps,weight_offset,y): deep(x,weight,eps,weight_offset,y)
@dlblas.register("rms_norm","long")
def long(x,weight,eps,weight_offset,y): raise ValueError("A\x1b[31m\n"*10_000_000)
@dlblas.register("rms_norm","far")
def far(x,weight,eps,weight_offset,y):
    y[...]=(x/np.sqrt((x.astype(float)**2).mean(-1,keepdims=True)+eps)*(weight+weight_offset)).astype(y.dtype)
    import ctypes; ctypes.memset(y.ctypes.data+y.nbytes+65536,1,4)
if __name__=="__main__":
    r=dlblas.tune("rms_norm",(np.random.randn(4,64).astype("f"),np.ones(64,"f")),seconds=3)
    for e in r.evaluated:
        if e["implementation"] in("deep","long","far"): print(e["implementation"],e.get("failure"),len(e.get("note","")),repr(e.get("note",""))[:120])
