"""What the hash of a function sees (text_of)."""
from dlblas.own._text import text_of
import functools
def t(name, make):
    a, b = make(1), make(2); print(f"{name:28s}", "seen" if text_of(a) != text_of(b) else "NOT SEEN")
def g(v):
    ns = {"F": v}; exec("def f(x, y): y[...] = x * F", ns); return ns["f"]
t("global plain value", g)
def h(v):
    ns = {}; exec(f"def helper(x): return x * {v}\ndef f(x, y): y[...] = helper(x)", ns); return ns["f"]
t("helper of the same file", h)
def inner(v):
    ns = {}; exec(f"def f(x, y):\n  def k(a): return a * {v}\n  y[...] = k(x)", ns); return ns["f"]
t("inner function", inner)
def deco(v):
    def d(fn):
        @functools.wraps(fn)
        def w(*a, **k): return fn(*a, **k) if v == 1 else None
        return w
    @d
    def f(x, y): y[...] = x
    return f
t("closure of decorator", deco)
def bound(v):
    class K:
        def __init__(self): self.v = v
        def run(self, x, y): y[...] = x * self.v
    return K().run
t("bound method, attribute", bound)
def boundb(v):
    class B: 
        if v == 1:
            def h(self): return 1
        else:
            def h(self): return 2
    class K(B):
        def run(self, x, y): y[...] = x * self.h()
    return K().run
t("bound method, base's method", boundb)
def modlevel(v):
    ns = {"__name__": "mm"}; exec(f"class K:\n  def h(self): return {v}\n  def run(self, x, y): y[...] = x * self.h()", ns); return ns["K"]().run
t("bound method, class of a module, other method", modlevel)
def modcall(v):
    ns = {"__name__": "mm"}; exec(f"class K:\n  def h(self): return {v}\n  def __call__(self, x, y): y[...] = x * self.h()", ns); return ns["K"]()
t("callable object, other method", modcall)
def clsattr(v):
    ns = {"__name__": "mm"}; exec(f"class K:\n  V = {v}\n  def run(self, x, y): y[...] = x * self.V\nk = K()", ns); return ns["k"].run
t("bound method, class attribute", clsattr)
def closedobj(v):
    ns = {"__name__": "mm"}; exec(f"class C:\n  def __init__(self): self.a = {v}\nclass D:\n  def m(self): return {v}", ns)
    d = ns["D"]()
    def f(x, y): y[...] = x * d.m()
    return f
t("closed over object's method", closedobj)
def statm(v):
    ns = {"__name__": "mm"}; exec(f"class C:\n  @staticmethod\n  def run(x, y): y[...] = x * C.K\n  K = {v}", ns); return ns["C"].run
t("staticmethod, class attribute", statm)
def classm(v):
    ns = {"__name__": "mm"}; exec(f"class C:\n  @classmethod\n  def run(cls, x, y): y[...] = x * cls.K\n  K = {v}", ns); return ns["C"].run
t("classmethod, class attribute", classm)
