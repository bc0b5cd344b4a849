# The command veil with studies and figures:
#   docker build -t veil .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" veil solve gallery:two-rooms
# Without --user it runs as the user veil, who may not write to your folder.
FROM python:3.12-slim
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir -c constraints.txt '.[cluster,plot]'
ENV OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
RUN useradd --create-home veil
USER veil
WORKDIR /work
ENTRYPOINT ["veil"]
