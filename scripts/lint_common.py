"""What the lints share: the list of source files, and allow-lists that only shrink."""
import os
import subprocess

FOLDERS = ["base", "transport", "runtime", "partitioner", "compiler", "gateway", "coordinator", "workers", "cli", "tests"]


def sources(root, suffixes=(".c", ".h", ".def")):
    """Repository paths of our own sources below the folders of the house, sorted."""
    found = []
    for folder in FOLDERS:
        for place, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = [name for name in folders if name not in ("data", "corpus", "__pycache__")]
            found += [os.path.relpath(os.path.join(place, name), root) for name in names if name.endswith(suffixes)]
    return sorted(found)


def read_allowed(text):
    """An allow-list: lines "KIND PLACE VALUE"; "#" starts a comment."""
    allowed = {}
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words:
            kind, place, value = words
            allowed[(kind, place)] = int(value)
    return allowed


def committed_list(root, name):
    """The list as it stands on the main branch of the repository that this one was cloned from, or None."""
    shown = subprocess.run(["git", "-C", root, "show", "origin/main:" + name], capture_output=True, text=True)
    return read_allowed(shown.stdout) if shown.returncode == 0 else None


def ratchet(root, name, limits, measured):
    """Compares measured {(kind, place): value} over the limits with the allow-list `name`: a list of complaints.

    Worse than the entry fails; better fails too, so that the entry is brought down; and no entry may be new or larger
    than on the upstream main branch."""
    path = os.path.join(root, name)
    allowed = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            allowed = read_allowed(file.read())
    complaints = []
    for key, value in sorted(measured.items()):
        limit = limits.get(key[0], 0)
        if value > limit and key not in allowed:
            complaints.append(f"{key[1]}: {key[0]} {value} is over the limit {limit}: make it smaller")
        elif value > allowed.get(key, value):
            complaints.append(f"{key[1]}: {key[0]} grew from {allowed[key]} to {value}: make it smaller")
    for key, value in sorted(allowed.items()):
        now = measured.get(key, 0)
        if now <= limits.get(key[0], 0):
            complaints.append(f"{key[1]}: {key[0]} is within its limit now: shrink {name}, remove the entry")
        elif now < value:
            complaints.append(f"{key[1]}: {key[0]} is {now} now: shrink the entry {value} in {name}")
    before = committed_list(root, name)
    if before is not None:
        complaints += [f"{name}: the entry '{key[0]} {key[1]} {value}' is new or larger: this list only shrinks"
                       for key, value in sorted(allowed.items()) if value > before.get(key, 0)]
    return complaints


def report(complaints, what):
    """Prints the complaints and gives the exit code."""
    for complaint in complaints:
        print(complaint)
    print(f"{what}: {len(complaints)} complaints" if complaints else f"{what}: clean")
    return 1 if complaints else 0
