import dlblas, numpy as np
def right(x,weight,eps,weight_offset): return (x/np.sqrt((x.astype(float)**2).mean(-1,keepdims=True)+eps)*(weight+weight_offset))
@dlblas.register("rms_norm","spoils")
def spoils(x,weight,eps,weight_offset,y):
    y[...]=right(x,weight,eps,weight_offset)
    try:
        x[...]=7
    except ValueError: pass
    import ctypes; ctypes.memset(x.ctypes.data,1,64)
@dlblas.register("rms_norm","last")
def last(x,weight,eps,weight_offset,y): y.reshape(-1)[:-1]=right(x,weight,eps,weight_offset).reshape(-1)[:-1]
n=[0]
@dlblas.register("rms_norm","prev")
def prev(x,weight,eps,weight_offset,y):
    global P; 
    n[0]+=1
    r=right(x,weight,eps,weight_offset); y[...]=r if n[0]<4 else globals().get("P",r); globals()["P"]=r.copy()
if __name__=="__main__":
    r=dlblas.tune("rms_norm",(np.random.randn(32,256).astype("f"),np.ones(256,"f")),seconds=2)
    for e in r.evaluated:
        if e["implementation"] in("spoils","last","prev"): print(e["implementation"],e.get("failure"),repr(e.get("note",""))[:120])
