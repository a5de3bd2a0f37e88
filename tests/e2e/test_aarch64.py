"""cuvil for 64-bit Arm under qemu-user: answers from an artifact with two targets, --add-target, cuts, the wrong CPU.

ctest: labels=release timeout=900
"""
import arm64
from arm64 import cases


def same_bits(name, folder):
    """One target added later, a newer CPU, cuts: bit for bit the answer of the artifact built at once, on the oldest CPU."""
    artifact = arm64.build(name, folder, "native", "aarch64")
    later = arm64.build(name + "-later", folder, "native")
    cases.run([cases.CUVIL, "build", "--add-target", "aarch64", later])
    want = arm64.run(artifact, folder, name)
    others = {"--add-target": arm64.run(later, folder, name + "-later"),
              "a newer CPU": arm64.run(artifact, folder, name + "-max", cpu="max"),
              "cuts": arm64.run(artifact, folder, name + "-cut", "--cuts", "1,3", "--threads", "2")}
    for what, got in others.items():
        if len(got) != len(want) or any(g.tobytes() != w.tobytes() for g, w in zip(got, want)):
            return what + ": the bits differ"
    return None


def refused(folder):
    """An artifact with only the other CPU's code: exit 2 and one sentence, on both sides."""
    arguments = ["--input-dir", folder, "--output-dir", cases.work_dir("aarch64/refused")]
    for target, command in (("x86-64-v3", arm64.emulated("cortex-a53")), ("aarch64", [cases.CUVIL])):
        artifact = arm64.build("only-" + target, folder, target)
        said = cases.run(command + ["run", artifact] + arguments, expect=2).stderr
        if said.count("\n") != 1 or artifact not in said or target not in said or "--add-target" not in said:
            return "only %s: %s" % (target, said)
    return None


if __name__ == "__main__":
    names = ["mlp-tiny", "resnet-tiny", "bert-tiny", "loop-tiny"]
    folder = {name: cases.goldens([name]) + "/" + name for name in names}
    arm64.prepare()
    report = cases.Report()
    for model in names:
        report.attempt(model, arm64.compare, model, folder[model])
    report.attempt("bits", same_bits, "bert-tiny", folder["bert-tiny"])
    report.attempt("wrong CPU", refused, folder["mlp-tiny"])
    report.finish()
