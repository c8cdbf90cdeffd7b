def save(ax, path):
    ax.figure.savefig(path)
